"""Commits that are typed again: which they are, and when an offer is what the commit has."""

from __future__ import annotations

from next_edit_replay import ChangedFile, made_once, replaced_often

OLD = ("import a", "size = 1", "f(size, size)", "g(size)", "end")
NEW = ("import a", "import b", "width = 1", "f(width, width)", "g(size, 2)", "end")


def file_of(old: tuple[str, ...] = OLD, new: tuple[str, ...] = NEW) -> ChangedFile:
    return ChangedFile("a.py", old, new)


def test_an_offer_is_right_where_the_commit_has_it_in_the_lines_as_they_are() -> None:
    file = file_of()
    assert file.is_right(1, 0, 4, "width")
    assert not file.is_right(1, 0, 4, "depth")
    file.put(1, 1, ["import b"])
    assert [file.is_right(3, start, start + 4, "width") for start in (2, 8)] == [True, True]
    file.put(3, 4, ["f(width, size)"])
    assert file.is_right(3, 9, 13, "width")
    file.put(3, 4, ["f(width, width)"])
    assert not file.is_right(3, 2, 7, "width")
    assert not file.is_right(4, 2, 6, "width")  # the commit has another change there
    assert not file.is_right(1, 7, 8, "width")  # a new line
    assert [file.stays(line) for line in range(len(file.lines))] == [True, True, False, True, False, True]


def test_the_steps_make_the_lines_of_the_commit() -> None:
    file = file_of()
    for step in file.steps:
        at = file.place_of(step)
        file.put(at, at + step.end - step.start, step.lines)
    assert tuple(file.lines) == NEW


def test_a_commit_is_replayed_if_tokens_are_replaced_in_several_lines() -> None:
    assert replaced_often([file_of()])
    apart = [file_of(OLD[at : at + 2], NEW[at + 1 : at + 3]) for at in (1, 2)]
    assert not replaced_often(apart[:1])  # two lines
    assert replaced_often([*apart, file_of(("x",), ("y",))])
    assert not replaced_often([file_of(("a", "b", "c"), ("x", "y", "z"))])
    assert not replaced_often([file_of()] * 11)


def test_changes_that_no_other_line_has() -> None:
    file = file_of()
    assert [step.lines for _, step in made_once([file])] == [("g(size, 2)",)]
    assert [step.lines for _, step in made_once([file, file_of()])] == []
