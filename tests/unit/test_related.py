"""Pieces of other places: the ones that resemble the text before the cursor, and nothing twice."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lsp_calib.completion.context import Cursor
from lsp_calib.completion.related_code import MOST_FILES, SourceFile, near_files, related

texts = st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), max_size=60)
words = st.sampled_from(["alpha", "beta", "gamma", "delta(epsilon)", "    return zeta", ""])
documents = st.lists(texts | words, min_size=1, max_size=120)


def test_the_piece_that_resembles_the_text_before_the_cursor_comes_last() -> None:
    """The end of what comes first stands next to the document."""
    noise = [f"other_{n} = different({n})" for n in range(100)]
    opened = "    with open_archive(path) as archive:"
    alike = ["def load_invoice(path):", opened, "        return parse(archive)"]
    files = [SourceFile("a.py", noise), SourceFile("b.py", [*noise[:50], *alike, *noise[50:]])]
    cursor = Cursor.at(["def load_receipt(path):", opened, "        "], 2, 8)
    found = related(cursor, (0, 3), "c.py", files, 4000)
    assert found[-1].name == "b.py"
    assert "return parse(archive)" in found[-1].text
    assert len(found) > 1


def test_the_document_itself_is_another_place_where_the_prompt_does_not_show_it() -> None:
    far = ["def total(invoice):", "    amount = invoice.net + invoice.tax", "    return amount"]
    lines = [*far, *["pass  # nothing"] * 300, "def subtotal(invoice):", "    amount = invoice.net"]
    cursor = Cursor.at(lines, len(lines) - 1, 10)
    (best,) = related(cursor, (200, len(lines)), "bill.py", (), 400)[-1:]
    assert best.name == "bill.py"
    assert "invoice.tax" in best.text
    assert "subtotal" not in "".join(piece.text for piece in related(cursor, (200, 305), "bill.py", (), 4000))


@given(documents, st.lists(documents, max_size=4), st.integers(0, 3000), st.data())
def test_pieces_fit_and_hold_no_line_twice(
    lines: list[str], others: list[list[str]], budget: int, data: st.DataObject
) -> None:
    line = data.draw(st.integers(0, len(lines) - 1))
    first = data.draw(st.integers(0, line))
    end = data.draw(st.integers(line + 1, len(lines)))
    cursor = Cursor.at(lines, line, data.draw(st.integers(0, len(lines[line]))))
    # Each line is marked, so that one that comes twice is seen.
    files = [
        SourceFile(f"{n}.py", [f"{text} mark_{n}_{at}" for at, text in enumerate(other)])
        for n, other in enumerate(others)
    ]
    found = related(cursor, (first, end), "own.py", files, budget)
    assert sum(len(piece.text) + len(piece.name) + 1 for piece in found) <= max(budget + len(found), 0)
    marks = [word for piece in found for word in piece.text.split() if word.startswith("mark_")]
    assert len(marks) == len(set(marks))
    for piece in found:
        of = lines if piece.name == "own.py" else files[int(piece.name[0])].lines
        assert piece.text in "\n".join(of)
        assert piece.text.strip()
    assert found == related(cursor, (first, end), "own.py", files[::-1], budget)


def test_files_that_a_document_names_come_before_those_beside_it() -> None:
    near = ["app/forms.py", "app/models.py", "lib/forms.py", "lib/tools/__init__.py"]
    names = ["app/views.py", *near[::-1], "x/y.py"]
    head = ["from .forms import Form", "import lib.tools", "from app.models import User"]
    assert near_files("app/views.py", head, names) == near
    assert near_files("app/views.py", [], names) == ["app/forms.py", "app/models.py"]
    assert near_files("x/y.py", head, [f"x/{n}.py" for n in range(500)])[0] == "x/0.py"
    assert len(near_files("x/y.py", head, [f"x/{n}.py" for n in range(500)])) == MOST_FILES


def test_a_file_of_any_size_takes_a_bounded_time() -> None:
    huge = [f"value_{n} = compute_{n % 97}({n})" for n in range(200_000)]
    cursor = Cursor.at(huge, 100_000, 5)
    found = related(cursor, (99_990, 100_010), "a.py", [SourceFile("b.py", huge)], 1600)
    assert found
