"""Where a prompt is cut so that it ends at a token boundary."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp_calib.completion.prompt import split_at_boundary

source = st.text(st.sampled_from("abc_0 \t.([{\"'=#é日😀\u200d")) | st.text(
    st.characters(exclude_characters="\r\n")
)


@given(source)
def test_nothing_is_lost_and_nothing_is_added(before: str) -> None:
    stays, forced = split_at_boundary(before)
    assert stays + forced == before


@given(source)
def test_a_prompt_never_ends_in_white_space(before: str) -> None:
    """What ends in white space tokenises unlike anything a model was trained on (at most 64 are cut)."""
    stays, forced = split_at_boundary(before)
    if len(forced) < 64 and len(before) < 64:
        assert stays == stays.rstrip() or forced.strip()


@given(source)
def test_a_prompt_never_ends_inside_a_word(before: str) -> None:
    stays, forced = split_at_boundary(before)
    if len(forced) < 64 and stays and forced:
        assert not ((stays[-1].isalnum() or stays[-1] == "_") and (forced[0].isalnum() or forced[0] == "_"))


@pytest.mark.parametrize(
    ("before", "stays", "forced"),
    [
        ("", "", ""),
        ("    ", "", "    "),
        ("\t\t", "", "\t\t"),
        ("    return foo.ba", "    return foo", ".ba"),
        ("    return foo.", "    return foo", "."),
        ("    return ", "    return", " "),
        ("    ret", "", "    ret"),
        ("f(x, ", "f(x,", " "),
        ("f(x,", "f(x", ","),
        ("x = 'é", "x =", " 'é"),
        ("s = '日本", "s =", " '日本"),
        ("s = '😀", "s =", " '😀"),
        ("a\u3000b", "a", "\u3000b"),
    ],
)
def test_where_the_cut_is(before: str, stays: str, forced: str) -> None:
    assert split_at_boundary(before) == (stays, forced)


@pytest.mark.parametrize("unit", ["a", " ", ".", " .", ". ", "a.", "a ", "(", "\t", "😀", "_", "'a "])
def test_an_endless_line_costs_no_time_and_little_is_forced(unit: str) -> None:
    def seconds(length: int) -> float:
        before = unit * (length // len(unit))
        began = time.process_time()
        for _ in range(10):
            stays, forced = split_at_boundary(before)
        took = time.process_time() - began
        assert len(forced) <= 64
        assert stays + forced == before
        return took

    # Twenty times as long may take twenty times as long, and not four hundred.
    assert seconds(200_000) < 60 * max(seconds(10_000), 1e-3)
