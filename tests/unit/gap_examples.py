"""Source with each construct that a grammar's wheel does not know, in order but for that: see `test_gaps`."""

from __future__ import annotations

from lsp_calib.syntax.languages import RULES
from lsp_calib.syntax.languages.python import NEWER_PYTHON

# In the order of the rows of `LanguageRules.gaps`.
EXAMPLES = {
    "javascript": (
        "class A {\n  accessor x = 1;\n  f() {}\n}\n",
        "import a from './a';\nexport { default } from './b.json' with { type: 'json' };\na();\n",
        "import a from './a.json' assert { type: 'json' };\na();\n",
        "import defer * as a from './a';\na.f();\n",
    ),
    "typescript": (
        "export type * from './a';\nexport type * as b from './b';\n",
        "type A = import('./a').N.T<string>;\ntype B = Array<import('./a').T<A>>;\nlet a: A;\n",
        "interface P<out T> {\n  a: T;\n}\nclass R<in out T, out U = string> {}\n",
        "interface P<in T> {\n  a(b: T): void;\n}\ntype Q<in T> = (a: T) => void;\n",
        "class A {\n  static accessor x: number = 1;\n  f() {}\n}\n",
        "export { a } from './a.json' with { type: 'json' };\nlet b = 1;\n",
        "class A {\n  accessor: number;\n  f() {}\n}\n",
        "class A {\n  static [a: string]: number;\n  f() {}\n}\n",
        "declare module 'a' {\n  global {\n    var b: string;\n  }\n}\n",
        "interface A {\n  abstract?: boolean;\n}\n",
        "type A = {\n  [K in keyof readonly any[]]?: boolean;\n};\n",
        "import defer * as a from './a';\na.f();\n",
        "for (using a of b) {\n  a.f();\n}\n",
    ),
    "java": (
        "class A extends B {\n  A(int a) {\n    check(a);\n    super(a);\n  }\n}\n",
        "import module java.base;\n\nclass A {}\n",
    ),
    "csharp": (
        "class A\n{\n    void F()\n    {\n        a?.B = 1;\n        a?.B.C += 2;\n    }\n}\n",
        "class A\n{\n    void F()\n    {\n        a?[0] = 1;\n    }\n}\n",
        "static class A\n{\n    extension(string s)\n    {\n        public bool B => true;\n    }\n}\n",
        "class A<T> where T : allows ref struct\n{\n}\n",
        "class A\n{\n    public void operator +=(int x) { }\n}\n",
        "class A\n{\n    void F()\n    {\n        H((ref a, out b) => b = a);\n    }\n}\n",
        "#:package A@1.0\nvar a = 1;\n",
    ),
    "go": ('package a\n\nfunc f() {\n\tp := new(g(1))\n\tq := new(a + 1)\n\tr := new("a")\n\th(p, q)\n}\n',),
    "python": ("class A[T = int]:\n    pass\n\n\ntype B[T = int, **P = [int]] = list[T]\nc = 1\n",),
    "newer python": (
        "type A[T] = list[T]\n",
        "def f[T](x: T) -> T:\n    pass\n",
        "def f[\n    T\n](x: T): ...\n",
        'x = f"{a["b"]}"\n',
        "try:\n    pass\nexcept A, B:\n    pass\n",
        "x = t'a{b}'\n",
    ),
    "c": (
        "void f(void) {\n  auto x = 1;\n  g(x);\n}\n",
        "enum E : unsigned char {\n  A,\n};\n",
        "int a;\nunsigned _BitInt(128) x;\nint b;\n",
        "int a;\n_Atomic(int) y;\nint b;\n",
        "int a;\n_Complex double c;\nint b;\n",
        "struct [[gnu::packed]] S {\n  int x;\n};\n",
        "void f(void) {\n  goto *a[x];\n  g(x);\n}\n",
        "__attribute__((packed)) struct S {\n  int x;\n};\n",
        "int x = __builtin_offsetof(struct S, x);\nint y;\n",
        "void f(int x) {\n  switch (x) {\n    case 1 ... 3:\n      break;\n  }\n}\n",
        "void f(int x) {\n  if (x)\n    goto out;\n  g(x);\nout:\n}\n",
    ),
    "cpp": (
        "struct S {\n  template <typename T> void f(this T&& self) {\n  }\n  int x;\n};\n",
        "void f() {\n  if consteval {\n    g();\n  }\n}\n",
        "void f() {\n  auto g = [x] mutable { return x; };\n  auto h = [] -> int { return 1; };\n}\n",
        "export module a.b;\n\nint x;\n",
        "export import a;\n\nint x;\n",
        "export int f();\n\nint x;\n",
        "template <class T> class S {};\ntemplate class S<int>;\nextern template class S<char>;\n",
        'struct S {\n  S() = delete("why");\n};\n',
        "struct S {\n  int x : 3 = 1;\n  int y;\n};\n",
        "void f() {\n  int x = (a->*b)(1);\n}\n",
        "auto f = [](int x) static { return x; };\nint y;\n",
        "template <class T> void f(T x);\nextern template void f<int>(int);\n",
        "typedef void (S::*M)(int);\nint x;\n",
        "int f() {\n  return a ? b : throw c;\n}\n",
        "void f() {\n  auto g = [&] [[nodiscard]] (int x) { return x; };\n}\n",
        "void f(int x) {\n  switch (x) {\n    case 1 ... 3:\n      break;\n  }\n}\n",
        "void f(int x) {\n  if (x)\n    goto out;\n  g(x);\nout:\n}\n",
    ),
    "php": (
        "<?php\n\nfunction f() {\n    (void) g();\n}\n",
        "<?php\n\nclass A {\n    public function __construct(final int $x) {}\n}\n",
    ),
    "rust": (
        'unsafe extern "C" {\n    pub safe fn f(x: i32) -> i32;\n    safe static X: i32;\n}\n',
        "fn f() {\n    S { x, .. } = d;\n    g(x);\n}\n",
        "fn f() {\n    g::<-1>();\n    h();\n}\n",
    ),
    "ruby": (
        "f = ->(x; y) { x }\nf.(1)\n",
        'class A\n  def f(x) = puts x, 1\n\n  def g = raise "a"\nend\n',
    ),
}


EXAMPLE_OF = {
    row: example
    for table, examples in EXAMPLES.items()
    for row, example in zip(
        NEWER_PYTHON if table == "newer python" else RULES[table].gaps.rows, examples, strict=True
    )
}
