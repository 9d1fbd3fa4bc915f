"""Where documentation stands, as each language's own tool has it; each row names the tool."""

from __future__ import annotations

import pytest

from lsp_calib.summarization.insertion import insertion, may_insert
from lsp_calib.syntax import Function, documentation_sentence, functions

TYPESCRIPT = "TypeScript 5.9.3"
GO = "go doc of Go 1.27.3"
RUST = "rustdoc 1.95.0"
JAVA = "javadoc of JDK 25.0.3"
RUBY = "RDoc 7.0.3 and 6.4.1.1, YARD 0.9.28"
RDOC = "RDoc 6.4.1.1"
YARD = "YARD 0.9.28"
DOXYGEN = "Doxygen 1.9.4"
PYTHON = "inspect of Python 3.11.7"
PHP = "getDocComment of PHP 8.2.36"


def only(source: str, language: str) -> Function:
    (function,) = functions(source.split("\n"), language)
    return function


SEEN = [
    # Blank lines between.
    ("javascript", TYPESCRIPT, "/** D it is. */\n\nfunction f() {}", "D it is."),
    ("typescript", TYPESCRIPT, "/** D it is. */\n\n\nfunction f() {}", "D it is."),
    ("typescript", TYPESCRIPT, "/** D it is. */\n\n// why\n\nfunction f() {}", "D it is."),
    ("go", GO, "// D it is.\n\nfunc f() {}", None),
    ("rust", RUST, "/// D it is.\n\n\nfn f() {}", "D it is."),
    ("java", JAVA, "class X {\n/** D it is. */\n\n\nvoid m() {} }", "D it is."),
    ("ruby", RUBY, "# D it is.\n\ndef f; 1 end", "D it is."),
    ("ruby", RDOC, "# D it is.\n\n\ndef f; 1 end", "D it is."),
    ("ruby", RUBY, "# no, not it\n\n# rubocop:disable X\ndef f; 1 end", None),
    ("ruby", RUBY, "# no, not it\n\n# D it is.\n\ndef f; 1 end", "D it is."),
    ("c", DOXYGEN, "/** D it is. */\n\n\nint f(void) { return 1; }", "D it is."),
    ("c", DOXYGEN, "/* No, of several. */\n\nint f(void) { return 1; }", None),
    ("c", DOXYGEN, "/** @file\n * Not of f. */\n\nint f(void) { return 1; }", None),
    ("php", PHP, "<?php\n/** D it is. */\n\n\nfunction f() {}", "D it is."),
    # A blank line above or below an attribute.
    ("typescript", TYPESCRIPT, "class X {\n/** D it is. */\n\n@A()\n\nm() {} }", "D it is."),
    ("rust", RUST, "/// D it is.\n\n#[inline]\n\nfn f() {}", "D it is."),
    ("java", JAVA, "class X {\n/** D it is. */\n\n@A\n\nvoid m() {} }", "D it is."),
    # Below a decorator nothing is looked for.
    ("typescript", TYPESCRIPT, "class X {\n@A()\n/** not it */\nm() {} }", None),
    ("typescript", TYPESCRIPT, "class X {\n/** D it is. */\n@A()\n/** not it */\nm() {} }", "D it is."),
    # Several comments.
    ("typescript", TYPESCRIPT, "/** not it */\n/** D it is. */\nfunction f() {}", "D it is."),
    ("java", JAVA, "class X {\n/** not it */\n/// D it is.\nvoid m() {} }", "D it is."),
    ("php", PHP, "<?php\n/** not it */\n/** D it is. */\nfunction f() {}", "D it is."),
    ("go", GO, "// D it\n/* is. */\nfunc f() {}", "D it is."),
    ("go", GO, "// D it\n//nolint:x\n// is.\nfunc f() {}", "D it is."),
    ("rust", RUST, "/// D it\n// why\n/// is.\nfn f() {}", "D it is."),
    ("rust", RUST, "/** D it is. */\n/** Or not. */\nfn f() {}", "D it is."),
    ("cpp", DOXYGEN, "/** D it is. */\n/** Or not. */\nint f() { return 1; }", "D it is."),
    ("cpp", DOXYGEN, "/* not it */\n/** D it is. */\nint f() { return 1; }", "D it is."),
    # Among the words of the definition.
    ("typescript", TYPESCRIPT, "const f = /** D it is. */ () => {\n}", "D it is."),
    ("javascript", TYPESCRIPT, "a.f = /** D it is. */ function () {\n}", "D it is."),
    ("javascript", TYPESCRIPT, "/** D it is. */\nconst f = /** or not */ () => {\n}", "D it is."),
    ("cpp", DOXYGEN, "template <class T>\n/** D it is. */\nint f() {\n}", "D it is."),
    ("cpp", DOXYGEN, "[[nodiscard]]\n/** D it is. */\nint f() {\n}", "D it is."),
    ("cpp", DOXYGEN, "static /** D it is. */ int f() {\n}", "D it is."),
    ("cpp", DOXYGEN, "int f()\n/// D it is.\n{\n}", "D it is."),
    ("cpp", DOXYGEN, "static /* of a program */ int f() {\n}", None),
    ("php", PHP, "<?php\n/** not it */\n#[A]\n/** D it is. */\nfunction f() {\n}", "D it is."),
    ("php", PHP, "<?php\n$f = /** D it is. */ function () {\n};", "D it is."),
    ("php", PHP, "<?php\nclass X {\nstatic /** D it is. */ function f() {\n}\n}", "D it is."),
    ("php", PHP, "<?php\nfunction /** D it is. */ f() {\n}", "D it is."),
    ("php", PHP, "<?php\nfunction f(/** not it */ $a) {\n}", None),
    # Bound to a variable.
    ("javascript", TYPESCRIPT, "/** D it is. */\nconst F = memo(function (a) {\n});", "D it is."),
    ("javascript", TYPESCRIPT, "/** D it is. */\nconst F = React.memo(forwardRef((a) => {\n}));", "D it is."),
    ("typescript", TYPESCRIPT, "/** D it is. */\nconst f = useCallback((a) => {\n}, []);", "D it is."),
    ("typescript", TYPESCRIPT, "/** D it is. */\nconst f = ((a) => {\n}) as any;", "D it is."),
    ("go", GO, "package a\n\n// D it is.\nvar F = func(a int) {\n}", "D it is."),
    ("go", GO, "package a\n\nvar (\n\t// D it is.\n\tF = func(a int) {\n\t}\n)", "D it is."),
    ("java", JAVA, "class X {\n/** D it is. */\nstatic final F f = a -> {\n};\n}", "D it is."),
    ("cpp", DOXYGEN, "/** D it is. */\nauto f = [](int a) {\n};", "D it is."),
    ("cpp", DOXYGEN, '/** D it is. */\nextern "C" int f(int a) {\n}', "D it is."),
    # In the body, and in attributes.
    ("python", PYTHON, "def f():\n    'D it ' 'is.'\n    return 1", "D it is."),
    ("python", PYTHON, "def f():\n    ('D it '  # why\n     'is.')\n    return 1", "D it is."),
    ("python", PYTHON, "def f():\n    ('D it is.')\n    return 1", "D it is."),
    ("python", PYTHON, "def f():\n    'not it ' f'is.'\n    return 1", None),
    ("python", PYTHON, "def f():\n    'not it ' % 1\n    return 1", None),
    ("rust", RUST, '#[doc = "D it is."]\n#[inline]\nfn f() {\n}', "D it is."),
    ("rust", RUST, '/// D it\n#[cfg_attr(x, doc = "is.")]\nfn f() {\n}', "D it is."),
    ("rust", RUST, '#[cfg_attr(feature = "a", doc = "D it is.")]\nfn f() {\n}', "D it is."),
    ("rust", RUST, '#[cfg_attr(feature = "doc", inline)]\nfn f() {\n}', None),
    ("rust", RUST, "fn f() {\n    //! D it\n    // why\n    //! is.\n    g();\n}", "D it is."),
    ("rust", RUST, "fn f() {\n    /*! D it is. */\n    g();\n}", "D it is."),
    ("rust", RUST, 'fn f() {\n    #![doc = "D it is."]\n    g();\n}', "D it is."),
    ("rust", RUST, "/// D it is.\nfn f() {\n    //! Or so.\n    g();\n}", "D it is."),
    ("rust", RUST, "fn f() {\n    g();\n    /* not it */\n}", None),
    # The mark of another comment.
    ("php", PHP, "<?php\n/*** not it */\nfunction f() {\n}", None),
    ("php", PHP, "<?php\n/**not it */\nfunction f() {\n}", None),
    ("ruby", RUBY, "=begin rdoc\nD it is.\n=end\ndef f; 1 end", "D it is."),
    ("ruby", RUBY, "# D it is.\n#: (Integer) -> Integer\ndef f; 1 end", "D it is."),
    ("ruby", RUBY, "# D it is.\n#--\n# not it\n#++\ndef f; 1 end", "D it is."),
    ("ruby", RUBY, "# D it is.\n#--\n# not it\ndef f; 1 end", "D it is."),
    ("ruby", RUBY, "# D it\n#--\n# not\n#++\n# is.\ndef f; 1 end", "D it is."),
    # Of what stands before it.
    ("cpp", DOXYGEN, "int a;\n///< of a, not it\nint f() { return 1; }", None),
    # Behind other code, and above what is between.
    ("java", JAVA, "class X {\nint q; /** D it is. */\nint f() { return 1; } }", "D it is."),
    ("java", JAVA, "class X {\nint q; /// D it is.\nint f() { return 1; } }", "D it is."),
    ("cpp", DOXYGEN, "int q; /** D it is. */\nint f() { return 1; }", "D it is."),
    ("typescript", TYPESCRIPT, "let q; /** not it */\nfunction f() {}", None),
    ("typescript", TYPESCRIPT, "/* not it */ /** D it is. */ function f() {}", "D it is."),
    ("typescript", TYPESCRIPT, "/****//** D it is. */\nfunction f() {}", "D it is."),
    ("cpp", DOXYGEN, "/****//** D it is. */\nint f() {\n}", "D it is."),
    ("cpp", DOXYGEN, "/** D it is. */\nMY_MACRO(x)\nint f(int a) {\n}", "D it is."),
    ("cpp", DOXYGEN, "MY_MACRO(x)\n/** D it is. */\nint f(int a) {\n}", "D it is."),
    ("cpp", DOXYGEN, "/** D it is. */\n#pragma x\nint f(int a) {\n}", "D it is."),
    ("cpp", DOXYGEN, "/** D it is. */\n#include <x>\nint f(int a) {\n}", "D it is."),
    ("cpp", DOXYGEN, "/** not it */\n#define X 1\nint f(int a) {\n}", None),
    ("cpp", DOXYGEN, "class X {\n/** D it is. */\npublic:\nint f() {\n}\n};", "D it is."),
    ("cpp", DOXYGEN, '/** D it is. */\nextern "C" {\nint f() {\n}\n}', "D it is."),
    ("cpp", DOXYGEN, "/** not it */\nnamespace n {\nint f() {\n}\n}", None),
    ("php", PHP, "<?php\n$q = 1; /** D it is. */\nfunction f() {}", "D it is."),
    ("php", PHP, "<?php\n/** D it is. */\nuse A\\B;\nfunction f() {}", "D it is."),
    ("php", PHP, "<?php\n/** D it is. */\nrequire_once 'x.php';\nfunction f() {}", "D it is."),
    ("php", PHP, "<?php\n/** D it is. */\n$x = ['a' => 1];\nfunction f() {}", "D it is."),
    ("php", PHP, "<?php\n/** D it is. */\nif (true) {\nfunction f() {}\n}", "D it is."),
    ("php", PHP, "<?php\n/** D it is. */\nif (true):\nfunction f() {}\nendif;", "D it is."),
    ("php", PHP, "<?php\nclass X {\n/** D it is. */\nuse T;\nfunction f() {}\n}", "D it is."),
    ("php", PHP, "<?php\n/** D it is. */\n?>\nx\n<?php\nfunction f() {}", "D it is."),
    ("php", PHP, "<?php\n/** not it */\nif (true) {\n$x = 1;\n}\nfunction f() {}", None),
    ("php", PHP, "<?php\n/** not it */\ng(fn() => 1);\nfunction f() {}", None),
    ("php", PHP, "<?php\n/** not it */\ndeclare(strict_types=1);\nfunction f() {}", None),
    ("php", PHP, "<?php\n/** not it */\nclass X { function f() {} }", None),
    ("php", PHP, "<?php\nclass X {\n/** not it */\npublic $p;\nfunction f() {}\n}", None),
    ("php", PHP, "<?php\nclass X {\n/** not it */\nconst A = 1;\nfunction f() {}\n}", None),
    ("ruby", RDOC, "# D it is.\nprivate\ndef f; 1 end", "D it is."),
    ("ruby", RDOC, "# D it is.\nprivate\n\n\ndef f; 1 end", "D it is."),
    ("ruby", RDOC, "# D it is.\nprivate # rubocop:disable X\ndef f; 1 end", "D it is."),
    ("ruby", RDOC, "# D it is.\nprivate :x\ndef f; 1 end", "D it is."),
    ("ruby", RUBY, "# not it\nrequire 'x'\ndef f; 1 end", None),
    ("ruby", RUBY, "# not it\nattr_reader :x\ndef f; 1 end", None),
    ("ruby", RUBY, "# not it\nsig { void }\ndef f; 1 end", None),
    ("ruby", RUBY, "sig { void }\n# D it is.\ndef f; 1 end", "D it is."),
    ("ruby", YARD, "private # D it is.\ndef f; 1 end", "D it is."),
    ("ruby", RUBY, "q = 1 # not it\ndef f; 1 end", None),
    # On the line of the definition, or behind it.
    ("ruby", YARD, "def f(a) # D it is.\n1 end", "D it is."),
    ("ruby", YARD, "def f(a, # D it is.\nb)\n1 end", "D it is."),
    ("ruby", YARD, "def f; 1 end # D it is.", "D it is."),
    ("ruby", RUBY, "# D it is.\ndef f # or not\n1 end", "D it is."),
    ("ruby", RUBY, "def f # rubocop:disable X\n1 end", None),
    ("ruby", RUBY, "def f\n1 end # not it", None),
    ("cpp", DOXYGEN, "int f() {\n} ///< D it is.", "D it is."),
    ("cpp", DOXYGEN, "int f() { } /**< D it is. */", "D it is."),
    ("cpp", DOXYGEN, "int f() {\n}\n//!< D it\n//!< is.", "D it is."),
    ("cpp", DOXYGEN, "int f() {\n} /* x */ ///< not it", None),
    # Below what belongs to the definition.
    ("typescript", TYPESCRIPT, "export\n/** not it */\nfunction f() {\n}", None),
    ("typescript", TYPESCRIPT, "class X {\nstatic\n/** not it */\nf() {\n}\n}", None),
    ("typescript", TYPESCRIPT, "class X {\nprivate /** not it */ f() {\n}\n}", None),
    ("go", GO, "package a\n\n/* not it */ func F() {\n}", None),
    # Comments that are no documentation.
    ("cpp", DOXYGEN, "// not it\nint f() {\n}", None),
    ("cpp", DOXYGEN, "/* not it */\nint f() {\n}", None),
    ("cpp", DOXYGEN, "//// not it\nint f() {\n}", None),
    ("cpp", DOXYGEN, "/*** not it */\nint f() {\n}", None),
    ("cpp", DOXYGEN, "/** D it is. */ /* LCOV_EXCL_START */\nint f() {\n}", "D it is."),
    ("cpp", DOXYGEN, "/// D it\n\n/// is.\nint f() {\n}", "D it is."),
    ("cpp", DOXYGEN, "/** @file\nnot it */\n/** D it is. */\nint f() {\n}", "D it is."),
    ("java", JAVA, "class X {\n/// D it is.\nint f() { return 1; } }", "D it is."),
    # An argument, and what is returned.
    ("typescript", TYPESCRIPT, "register(/** D it is. */ function f() {\n})", "D it is."),
    ("typescript", TYPESCRIPT, "register(\n  /** D it is. */\n  function f() {\n  })", "D it is."),
    ("typescript", TYPESCRIPT, "/** not it */\nregister(function f() {\n})", None),
    # Given below.
    ("python", PYTHON, "def f():\n    return 1\nf.__doc__ = 'D it is.'", "D it is."),
    ("python", PYTHON, "def f():\n    'not it'\n    return 1\nf.__doc__ = 'D it is.'", "D it is."),
    ("python", PYTHON, "@g\ndef f():\n    return 1\nf.__doc__ = 'D it is.'", "D it is."),
    (
        "python",
        PYTHON,
        "class X:\n    def f():\n        return 1\nX.f.__doc__ = 'D it ' 'is.'",
        "D it is.",
    ),
]

# Seen by one of the tools alone, so that there is nowhere to write another one; or no place for lines.
NO_PLACE = [
    ("python", PYTHON, "def f():\n    return 1\nf.__doc__ = Base.method.__doc__"),
    ("ruby", RUBY, "private # rubocop:disable X\ndef f\n1 end"),
    ("cpp", DOXYGEN, "namespace n { int f() {\n} }"),
    ("javascript", TYPESCRIPT, "module.exports = { f: function () {\n} }"),
    ("javascript", TYPESCRIPT, "const a = 1, f = () => {\n}"),
    ("typescript", TYPESCRIPT, "register(function f() {\n})"),
    ("go", GO, "package a\n\n/* not it */ func F() {\n}"),
]


@pytest.mark.parametrize(("language", "tool", "source", "sentence"), SEEN)
def test_what_the_tool_shows_is_the_documentation(
    language: str, tool: str, source: str, sentence: str | None
) -> None:
    function = only(source, language)
    assert documentation_sentence(function, language) == sentence, tool
    assert (function.docstring is None) is (sentence is None), tool
    assert not (sentence and may_insert(function, language)), tool
    assert "D it" not in function.code


@pytest.mark.parametrize(("language", "tool", "source"), NO_PLACE)
def test_nothing_is_offered_without_a_place_for_it(language: str, tool: str, source: str) -> None:
    function = only(source, language)
    assert not may_insert(function, language), tool
    assert insertion(source.split("\n"), function, language, "Return it.") is None, tool
    assert documentation_sentence(function, language) is None, tool


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ("function b() {\n/** D it is. */\nreturn function f() {\n}\n}", "D it is."),
        ("function b() {\nreturn /** D it is. */ function f() {\n}\n}", "D it is."),
        ("function b() {\nreturn function f() {\n}\n}", None),
    ],
)
def test_a_function_that_is_returned_has_documentation(source: str, sentence: str | None) -> None:
    _, function = functions(source.split("\n"), "typescript")
    assert documentation_sentence(function, "typescript") == sentence, TYPESCRIPT
    made = insertion(source.split("\n"), function, "typescript", "Return it.")
    assert (made and made.line) == (None if sentence else 1), TYPESCRIPT


@pytest.mark.parametrize(
    "source",
    ["const f = function g() {\n}", "const f = memo(function g() {\n})", "a.f = (function g() {\n}) as any"],
)
def test_a_function_has_the_name_that_it_is_bound_to(source: str) -> None:
    assert only(source, "typescript").name in ("f", "a.f")


@pytest.mark.parametrize(
    ("language", "tool", "source", "above"),
    [
        ("typescript", TYPESCRIPT, "class X {\n@A({\n  a: 1,\n})\nm() {\n}\n}", "@A({"),
        ("typescript", TYPESCRIPT, "class X {\n@A([\n  1,\n])\nm() {\n}\n}", "@A(["),
        ("typescript", TYPESCRIPT, "class X {\n@A()\n// remark\nm() {\n}\n}", "@A()"),
        ("typescript", TYPESCRIPT, "class X {\n@A() // why\n@B()\nm() {\n}\n}", "@A() // why"),
        ("javascript", TYPESCRIPT, "class X {\n@A({\n  a: 1,\n})\nm() {\n}\n}", "@A({"),
        ("javascript", TYPESCRIPT, "const F = memo(function (a) {\n});", "const F"),
        ("java", JAVA, "class X {\nstatic final F f = a -> {\n};\n}", "static final"),
        ("cpp", DOXYGEN, "auto f = [](int a) {\n};", "auto f"),
        ("cpp", DOXYGEN, 'extern "C" int f(int a) {\n}', 'extern "C"'),
        ("cpp", DOXYGEN, "MY_MACRO(x)\nint f(int a) {\n}", "int f"),
        ("cpp", DOXYGEN, "class X {\nint a;\nMY_MACRO(x)\nint f() {\n}\n};", "int f"),
        ("cpp", DOXYGEN, "int a;\nMY_MACRO(x) int f(int a) {\n}", "MY_MACRO"),
        ("cpp", DOXYGEN, "__attribute__((x))\nint f() {\n}", "__attribute__"),
        ("cpp", DOXYGEN, "// plain\nint f() {\n}", "int f"),
        ("cpp", DOXYGEN, "class X {\npublic: // plain\nint f() {\n}\n};", "int f"),
        ("typescript", TYPESCRIPT, "export\n/** not it */\nfunction f() {\n}", "export"),
        ("typescript", TYPESCRIPT, "class X {\nstatic\nf() {\n}\n}", "static"),
        ("typescript", TYPESCRIPT, "register(\nfunction f() {\n}\n)", "function f"),
        ("typescript", TYPESCRIPT, "/* plain */ function f() {\n}", "/* plain */ function f"),
        ("php", PHP, "<?php\n#[A]\nfunction f() {\n}", "#[A]"),
        ("php", PHP, "<?php\n/** not it */\nif (true) {\n$x = 1;\n}\nfunction f() {\n}", "function f"),
    ],
)
def test_a_sentence_goes_where_the_tool_looks(language: str, tool: str, source: str, above: str) -> None:
    lines = source.split("\n")
    made = insertion(lines, only(source, language), language, "Return it.")
    assert made is not None, tool
    assert f"/** Return it. */\n{above}" in "\n".join(made.apply(lines)), tool


def test_a_function_of_a_go_variable_gets_its_sentence() -> None:
    lines = ["package a", "", "var F = func(a int) {", "}"]
    made = insertion(lines, only("\n".join(lines), "go"), "go", "Return it.")
    assert made is not None
    assert "// F returns it.\nvar F" in "\n".join(made.apply(lines))


def test_a_value_that_a_function_makes_is_no_function() -> None:
    assert functions(["const x = list.map((a) => {", "  return a;", "});"], "javascript") == []


def test_the_code_is_without_documentation_in_its_body() -> None:
    function = only("fn f() {\n    //! D it\n    //! is.\n    g();\n}", "rust")
    assert function.code == "fn f() {\n    g();\n}"
