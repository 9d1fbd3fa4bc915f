"""Layouts of documentation around a function, each with the first sentence that the language's tool shows.

`tests/unit/test_placement.py` holds ours to them; `shown_documentation.py LANGUAGE --layouts` and
`tests/editors/typescript` hold them to the tool itself, and its output to ours.
"""

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

# (language, tool, source, sentence); None: the tool shows nothing.
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
    ("cpp", DOXYGEN, "static /* of a program */ int f() {\n}", None),
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
    ("cpp", DOXYGEN, "/** D it is. */\nMY_A(1)\nMY_B\ninline char* f(int e) {\n}", "D it is."),
    ("cpp", DOXYGEN, "class X {\n/** D it is. */\nMY_A\nMY_B\nstatic char* f(int e) {\n}\n};", "D it is."),
    ("cpp", DOXYGEN, "/** @name Not it. */\nint f() {\n}", None),
    ("cpp", DOXYGEN, "//@{\nint f() {\n}", None),
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
    ("ruby", RDOC, "# D it is.\nprivate :x\ndef f; 1 end", "D it is."),
    ("ruby", RUBY, "if x\n# D it is.\ndef f; 1 end\nend", "D it is."),
    ("ruby", RUBY, "# D it is.\n# }\n# -----\ndef f; 1 end", "D it is."),
    ("ruby", RUBY, "# not it\nrequire 'x'\ndef f; 1 end", None),
    ("ruby", RUBY, "# not it\nattr_reader :x\ndef f; 1 end", None),
    ("ruby", RUBY, "# not it\nsig { void }\ndef f; 1 end", None),
    ("ruby", RUBY, "sig { void }\n# D it is.\ndef f; 1 end", "D it is."),
    ("ruby", RUBY, "class X\nprivate # not it\ndef f; 1 end\nend", None),
    ("ruby", YARD, "class X\nprivate # why\n# D it is.\ndef f; 1 end\nend", "D it is."),
    ("ruby", RUBY, "q = 1 # not it\ndef f; 1 end", None),
    # On the line of the definition, or behind it.
    ("ruby", RUBY, "# D it is.\ndef f # or not\n1 end", "D it is."),
    ("ruby", RUBY, "def f # rubocop:disable X\n1 end", None),
    ("ruby", RUBY, "def f\n1 end # not it", None),
    ("cpp", DOXYGEN, "int f() {\n} /* x */ ///< not it", None),
    # Below what belongs to the definition.
    ("typescript", TYPESCRIPT, "class X {\nprivate /** not it */ f() {\n}\n}", None),
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
    ("typescript", TYPESCRIPT, "register(\n  /** D it is. */\n  function f() {\n  })", "D it is."),
    # Overloads: one alone is shown with what stands above the definition, several with the first one's.
    ("typescript", TYPESCRIPT, "/** D it is. */\nfunction f(a);\nfunction f() {\n}", "D it is."),
    ("typescript", TYPESCRIPT, "function f(a);\n/** D it is. */\nfunction f() {\n}", "D it is."),
    (
        "typescript",
        TYPESCRIPT,
        "function f(a);\nfunction f(a, b);\n/** not it */\nfunction f() {\n}",
        None,
    ),
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
