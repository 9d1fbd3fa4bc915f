"""Where documentation stands, as each language's own tool has it; each row names the tool."""

from __future__ import annotations

import pytest

from lsp_calib.summarization.insertion import insertion, may_insert
from lsp_calib.syntax import Function, documentation_sentence, functions

TYPESCRIPT = "TypeScript 5.9.3"
GO = "go doc of Go 1.27.3"
RUST = "rustdoc 1.95.0"
JAVA = "javadoc of JDK 25.0.3"
RUBY = "RDoc 7.0.3, YARD 0.9.28"
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
    ("ruby", RUBY, "# D it is.\n\n\ndef f; 1 end", None),
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
]


@pytest.mark.parametrize(("language", "tool", "source", "sentence"), SEEN)
def test_what_the_tool_shows_is_the_documentation(
    language: str, tool: str, source: str, sentence: str | None
) -> None:
    function = only(source, language)
    assert documentation_sentence(function, language) == sentence, tool
    assert may_insert(function, language) is (sentence is None), tool
    assert "D it" not in function.code


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
