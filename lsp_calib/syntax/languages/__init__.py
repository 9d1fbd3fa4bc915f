"""The rules of each language beyond its grammar: a module for each family, and a row of the table below.

To add a language:

1. Add the grammar's wheel to pyproject.toml and constraints.txt. Take single grammars, which are plain
   wheels.
2. Write the module with `RULES`, a `LanguageRules`. Start from go.py for documentation above functions
   (`braces.Finder` takes the node types of functions and comments), from python.py for indentation, from
   ruby.py for blocks that end with a word. `str(parser.parse(source).root_node)` shows a grammar's nodes.
3. Say which names are bound where they stand (`binds`), which need no binding (`known`), how a statement of
   the outermost level begins (`begins`; it may match too seldom, never inside of one), and which nodes span
   lines (`spans`).
4. Add its file names and its name to lsp_calib/languages.py, and editors' other names to `_ALIASES`.
5. Teach syntax/documentation.py its markup, so that its functions can be examples, and tool_comments.py its
   tools.
6. Say in summarization/insertion.py (`_STYLES`) how it writes documentation.
7. Put a sample into tests/programs/samples and its functions into language_samples.py, and what the wheel
   does not know into its `_GAPS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from lsp_calib.syntax.languages import c, csharp, go, java, javascript, php, python, ruby, rust
from lsp_calib.syntax.rules import LanguageRules

RULES: Mapping[str, LanguageRules] = MappingProxyType(
    {
        "c": c.RULES,
        "cpp": c.CPP_RULES,
        "csharp": csharp.RULES,
        "go": go.RULES,
        "java": java.RULES,
        "javascript": javascript.RULES,
        "javascriptreact": javascript.RULES,
        "php": php.RULES,
        "python": python.RULES,
        "ruby": ruby.RULES,
        "rust": rust.RULES,
        "typescript": javascript.TYPESCRIPT_RULES,
        "typescriptreact": javascript.TYPESCRIPT_REACT_RULES,
    }
)
"""The languages with a grammar, by their LSP identifiers."""

LANGUAGES = tuple(RULES)
