"""Comments that are not offered: in letters of another script, or of nothing but filling."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp_calib.characters import has_script, script_of, words_by_script
from lsp_calib.completion.context import Cursor
from lsp_calib.completion.features import DocumentFeatures, is_filler
from lsp_calib.completion.postprocess import Cleaned, Cut
from lsp_calib.completion.reasons import Removal

FOREIGN, FILLER = Cleaned("", Removal.FOREIGN_SCRIPT), Cleaned("", Removal.FILLER)


def at_mark(text: str, language: str) -> Cursor:
    before, _, _ = text.partition("▏")
    row, column = before.count("\n"), len(before) - before.rfind("\n") - 1
    return Cursor.at(tuple(text.replace("▏", "").split("\n")), row, column, language)


def offered(document: str, text: str, language: str = "python", elsewhere: Iterable[str] = ()) -> Cleaned:
    return DocumentFeatures().offered(at_mark(document, language), text, lambda: elsewhere)


class TestScript:
    @pytest.mark.parametrize(
        ("language", "document", "text"),
        [
            ("javascript", "/**\n * ▏\n */\nfunction f() {}\n", "计算总和"),
            ("javascript", "/**\n * ▏\nfunction f() {}\n", "计算总和 of them"),
            ("javascript", "▏\nfunction f() {}\n", "// 计算总和"),
            ("typescriptreact", "const a = <p>{/* ▏ */}</p>\n", "Это"),
            ("python", "# ▏\nx = 1\n", "это сумма"),
            ("python", "def f():\n    ▏\n    return 1\n", '"""計算する"""'),
            ("python", 'def f():\n    """The sum.\n\n    ▏\n    return 1\n', "カタカナ"),
            ("rust", "/// ▏\nfn f() {}\n", "합계를 계산한다"),
            ("go", "// ▏\nfunc f() {}\n", "מחשב את הסכום"),
            ("c", "/* ▏ */\n", "يحسب المجموع"),
            ("ruby", "# ▏\n", "υπολογίζει"),
            ("lua", "▏\n", "-- 计算总和"),
        ],
    )
    def test_a_comment_in_letters_that_the_document_lacks_is_not_offered(
        self, language: str, document: str, text: str
    ) -> None:
        assert offered(document, text, language) == FOREIGN
        known = document + "\n" + text
        assert offered(known, text, language).text == text, "the document has them"
        assert offered(document, text, language, [f'x = "{text}"']).text == text, "related code has them"

    def test_behind_code_it_is_cut_off(self) -> None:
        assert offered("x ▏\n", "= 1  # 初始值") == Cleaned("= 1", None, (Cut.COMMENT,))
        assert offered("f(▏)\n", "x)  # 初始值").text == "x"
        assert offered("int x▏\n", " = 1; /* 初始值 */", "c") == Cleaned(" = 1;", None, (Cut.COMMENT,))

    @pytest.mark.parametrize(
        "text",
        ["λ is the rate", "in μs, not µs", "Δx and Δλ", "x ∈ ℝ, ℵ₀, 𝛼", "naïve café", "½ of №1 → ok 🎉"],
    )
    def test_symbols_and_accents_are_letters_of_no_script(self, text: str) -> None:
        assert offered("# ▏\n", text).text == text

    @pytest.mark.parametrize(
        ("language", "document", "text"),
        [
            ("python", "print(▏)\n", '"计算总和"'),
            ("python", "▏\n", "变量 = 1"),
            ("python", "x = ▏\n", 'f("# 计算")'),
            ("javascript", "const a = ▏\n", "`// 计算`"),
        ],
    )
    def test_code_and_strings_may_be_in_any(self, language: str, document: str, text: str) -> None:
        assert offered(document, text, language).text == text

    def test_korean_is_not_written_in_chinese_letters_and_japanese_is(self) -> None:
        assert offered("# 합계\n# ▏\n", "计算") == FOREIGN
        assert offered("# これは\n# ▏\n", "計算").text == "計算"
        assert offered("# 計算\n# ▏\n", "これは").text == "これは"

    @pytest.mark.parametrize(
        ("char", "script"),
        [("я", "cyrillic"), ("λ", "greek"), ("ﾊ", "han and kana"), *((char, "") for char in "µ\u2126aé")],
    )
    def test_the_script_of_a_letter(self, char: str, script: str) -> None:
        assert script_of(char) == script

    @given(st.text())
    def test_a_word_is_of_its_script_and_a_text_has_it(self, text: str) -> None:
        for script, start, end in words_by_script(text):
            assert start < end
            assert {script_of(char) for char in text[start:end]} == {script}
            assert has_script(text, script)


class TestFiller:
    @pytest.mark.parametrize(
        "line",
        [
            *("# 0000000", "// -------", "# 1 2 3 4 5 6", "# 1. 1. 1. 1. 1. 1", "# 1.1.1.1.1.1.1", "# ====="),
            *("//////////////", "#########", " * -----------", "/******************/", "// ─────────"),
            *("# 0, 5, 10, 15, 20", "# 1234567890123", "# 121212121212", "# - - - - -", "/* ------- */"),
        ],
    )
    def test_of_nothing_else(self, line: str) -> None:
        assert is_filler(line)

    @pytest.mark.parametrize(
        "line",
        [
            *("# 42", "# 3.14159", "# 2026-11-29", "# 127.0.0.1", "# 0.0.0.0", "# 12:30:00", "# 1000000"),
            *("# ...", "# }", "// });", "# [1, 2, 3]", "# ->", "#!", "/**", " */", " *", "///", "//", "#"),
            *("# --- Names ---", "# 1. one", "# 3, 1, 4, 1, 5", "# 0 means all", "# 1/2", "# 100 %"),
        ],
    )
    def test_of_something(self, line: str) -> None:
        assert not is_filler(line)

    @pytest.mark.parametrize(
        ("language", "document", "text"),
        [
            ("python", "# ▏\nx = 1\n", "0000000"),
            ("python", "▏\nx = 1\n", "# 1 2 3 4 5 6"),
            ("javascript", "// ▏\n", "-------"),
            ("javascript", "/*\n * ▏\n */\n", "-------"),
            ("rust", "fn f() {\n    //▏\n}\n", "///////////"),
        ],
    )
    def test_it_is_not_offered(self, language: str, document: str, text: str) -> None:
        assert offered(document, text, language) == FILLER

    def test_behind_code_it_is_cut_off(self) -> None:
        assert offered("x ▏\n", "= 1  # 1.1.1.1.1.1") == Cleaned("= 1", None, (Cut.COMMENT,))

    @pytest.mark.parametrize(
        ("document", "text"),
        [
            ("# Names ▏\n", "-------"),
            ('def f():\n    """Add.\n\n    Parameters\n    ▏\n    """\n', "----------"),
            ("x = ▏\n", "1111111"),
            ("x = 10 ▏\n", "---1"),
        ],
    )
    def test_what_is_more_than_that_is(self, document: str, text: str) -> None:
        assert offered(document, text).text == text
