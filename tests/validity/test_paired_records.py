"""Two prompts on the same places: the documentation's figures are those of the committed records."""

import re
from pathlib import Path

import attrs
import pytest
from paired_records import compare, pairs_of

from lsp_calib.corpus.records import read_records

REPOSITORY = Path(__file__).parents[2]
RECORDS = REPOSITORY / "models" / "records"


def read(name):
    return read_records(RECORDS / f"{name}.jsonl")


@pytest.fixture(scope="module", params=["smollm2-135m", "qwen2.5-coder-1.5b"])
def windows(request):
    (header, small), (second, large) = (read(f"lines/line-{request.param}{end}") for end in ("", "-large"))
    return header, pairs_of(header, small, second, large)


def test_the_documentation_says_how_much_more_the_large_window_completes(windows):
    header, pairs = windows
    (found,) = compare(pairs, header)
    text = " ".join((RECORDS / "lines" / "README.md").read_text("utf-8").split())
    low, high = 100 * found.difference.low, 100 * found.difference.high
    rights = [round(share * len(pairs)) for share in (found.first, found.other)]
    said = re.search(
        rf"{rights[0]} exact(ly)? with the small window's prompt \({found.first:.0%}\)[^;]*"
        rf"{rights[1]} with the large one's \({found.other:.0%}, ([+]{low:.1f} to [+]{high:.1f}) points\); "
        rf"{found.only_other} only with the large one, {found.only_first} only with the small one",
        text.replace(" %", "%"),
    )
    assert said, (rights, found)


def test_a_file_does_not_differ_from_itself_and_sides_change_the_sign(windows):
    header, pairs = windows
    (same,) = compare([(one, one) for one, _ in pairs], header)
    assert (same.difference.value, same.difference.low, same.difference.high) == (0, 0, 0)
    (there,), (back,) = compare(pairs, header), compare([(b, a) for a, b in pairs], header)
    assert there.difference.value == -back.difference.value
    assert (there.only_first, there.only_other) == (back.only_other, back.only_first)


def test_what_an_editor_is_not_offered_is_not_right(windows):
    header, pairs = windows
    hidden = [(one, attrs.evolve(other, shown=False)) for one, other in pairs]
    (found,) = compare(hidden, header)
    assert found.other == 0


@pytest.mark.parametrize("language", ["Python", "Java"])
@pytest.mark.parametrize(
    ("model", "title"),
    [("smollm2-135m", "SmolLM2-135M"), ("qwen2.5-coder-1.5b", "Qwen2.5-Coder-1.5B")],
)
def test_the_documentation_says_what_augmentation_is_worth(model, title, language):
    header, plain = read(f"summaries/summary-{model}-{language.lower()}")
    second, augmented = read(f"augmented/summary-{model}-{language.lower()}")
    pairs = pairs_of(header, plain, second, augmented)
    found = {one.name: one for one in compare(pairs, header)}
    assert list(found)[-1] == "mean cosine"
    cells = [f"{title}, {language}", str(len(pairs))]
    for criterion in ("best-f1", "high-recall"):
        one = found[f"right by {criterion}"]
        low, high = 100 * one.difference.low, 100 * one.difference.high
        ends = f"{signed(low, 1)} to {signed(high, 1)}"
        change = signed(100 * one.difference.value, 1)
        cells.append(f"{100 * one.first:.1f} % → {100 * one.other:.1f} % ({change}; {ends})")
    one = found["mean cosine"].difference
    cells.append(f"{signed(one.value, 3)} ({signed(one.low, 3)} to {signed(one.high, 3)})")
    page = (RECORDS / "summaries" / "README.md").read_text("utf-8")
    assert f"| {' | '.join(cells)} |" in page


def signed(value, digits):
    """As the documentation writes it: 0 has no sign."""
    return f"{0:.{digits}f}" if round(value, digits) == 0 else f"{value:+.{digits}f}".replace("-", "−")


def test_files_that_cannot_be_compared_are_refused():
    header, lines = read("lines/line-smollm2-135m")
    second, summaries = read("summaries/summary-smollm2-135m-python")
    with pytest.raises(SystemExit, match="different tasks"):
        pairs_of(header, lines, second, summaries)
    with pytest.raises(SystemExit, match="no item in common"):
        pairs_of(header, lines[:3], header, lines[3:6])
