"""Places drawn from source: deterministic, in code alone, in the proportions in which people ask."""

from __future__ import annotations

import os
from collections import Counter
from functools import lru_cache
from pathlib import Path

import attrs
import pytest

import lsp_calib
from lsp_calib.characters import split_lines
from lsp_calib.commands.suggestions import language_of_file
from lsp_calib.completion.block import Scope, scope_of
from lsp_calib.completion.context import Cursor
from lsp_calib.completion.prompt import ALONE, Layout, WindowSize, build_prompt
from lsp_calib.corpus.functions import documented_task
from lsp_calib.corpus.places import (
    BEHIND_OPENER,
    GIT,
    NEW_LINE,
    STRATA,
    LineItem,
    line_task,
    sample_lines,
    surroundings_of,
)
from lsp_calib.corpus.source import language_below, source_files
from lsp_calib.errors import DataError, SettingsError
from lsp_calib.inference.models.cards import load_cards
from lsp_calib.syntax import prose_lines
from lsp_calib.values import Segment

PACKAGE = Path(lsp_calib.__file__).parent


@pytest.fixture(scope="module")
def drawn() -> list[LineItem]:
    """From a copy-free, real code base: this one."""
    return sample_lines(PACKAGE / "inference", "inference", 400, seed=3)


prose = lru_cache(lambda lines: prose_lines(lines, "python"))


def original(item: LineItem) -> tuple[tuple[str, ...], int]:
    name, line, _ = item.id.removeprefix("inference/").rsplit(":", 2)
    return split_lines((PACKAGE / "inference" / name).read_text("utf-8")), int(line) - 1


def test_the_same_files_and_seed_give_the_same_places(drawn: list[LineItem]) -> None:
    again = sample_lines(PACKAGE / "inference", "inference", 400, seed=3)
    assert [(item.id, item.target) for item in again] == [(item.id, item.target) for item in drawn]
    other = sample_lines(PACKAGE / "inference", "inference", 400, seed=4)
    assert [item.id for item in other] != [item.id for item in drawn]


def test_what_is_taken_away_and_what_stands_before_it_make_the_line(drawn: list[LineItem]) -> None:
    assert len(drawn) == 400
    for item in drawn:
        lines, at = original(item)
        assert item.cursor.line == at
        assert item.cursor.before + item.target == lines[at]
        assert item.cursor.after == ""
        assert list(item.cursor.lines[:at]) == list(lines[:at])
        assert list(item.cursor.lines[at + 1 :]) == list(lines[at + 1 :])
        assert item.is_correct(item.target)
        assert item.is_correct(item.target + "  ")
        assert not item.is_correct(item.target + "x")
        assert lines[at].strip()
        assert at not in prose(lines), "prose and empty lines are never drawn"
    assert len({item.id.rsplit(":", 1)[0] for item in drawn}) == len(drawn), "a line at most once"


def test_each_place_is_of_its_kind(drawn: list[LineItem]) -> None:
    for item in drawn:
        before, target = item.cursor.before, item.target
        match item.stratum:
            case "line-start":
                assert before == ""
            case "after-indentation":
                assert before.isspace()
                assert not target[0].isspace()
            case "mid-line":
                assert before.strip()
                assert not target[0].isspace()
            case "mid-word":
                assert before[-1].isalnum() or before[-1] == "_"
                assert target[0].isalnum() or target[0] == "_"


def test_places_behind_openers_are_where_editors_close() -> None:
    found = sample_lines(PACKAGE / "inference", "inference", 200, seed=3, kind=BEHIND_OPENER)
    assert len(found) == 200
    for item in found:
        assert item.cursor.before[-1] in "([{\"'"
        assert item.target.strip()
        assert item.stratum == "mid-line"


def test_each_kind_of_opener_is_drawn(tmp_path: Path) -> None:
    texts = (
        "call({n}, other)",
        "names[{n}]",
        "{{{n}: value}}",
        "print('{n} of them')",
        'print("{n} of them")',
    )
    lines = [
        f"def work{n}(value, other, names):\n    return {text.format(n=n)}\n"
        for n in range(40)
        for text in texts
    ]
    (tmp_path / "module.py").write_text("\n\n".join(lines))
    found = sample_lines(tmp_path, "written", 100, seed=3, kind=BEHIND_OPENER)
    assert {item.cursor.before[-1] for item in found} == set("([{\"'"), "there are no others"


def test_new_lines_stand_alone_in_their_scope() -> None:
    found = sample_lines(PACKAGE / "inference", "inference", 200, seed=3, kind=NEW_LINE)
    assert len(found) == 200
    assert {item.stratum for item in found} == {"line-start", "after-indentation"}
    removed = 0
    for item in found:
        lines, at = original(item)
        assert item.condition == NEW_LINE
        assert item.cursor.before + item.target == lines[at]
        assert not item.target[0].isspace(), "the indentation is there already"
        below = lines[at + 1 :]
        rest = list(item.cursor.lines[at + 1 :])
        assert rest == list(below[len(below) - len(rest) :])
        removed += len(below) - len(rest)
        scope = [scope_of(lines[at], line) for line in below]
        ends = next((n for n, one in enumerate(scope) if one is not Scope.INSIDE), len(below))
        ends += ends < len(below) and scope[ends] is Scope.LAST
        assert len(below) - len(rest) == ends
    assert removed > 200, "the test is of lines whose scope goes on"


def test_the_rest_of_a_scope_ends_with_it() -> None:
    lines = ["def f():", "    a = g(", "        1,", "    )", "    b = 2", "", "    c = 3", "d = 4"]
    item = LineItem(
        "p/a.py:2:5",
        "p",
        "after-indentation",
        Cursor.at([lines[0], "    ", *lines[2:]], 1, 4, "python"),
        "a = g(",
    )
    assert item.new_line().cursor.lines == ("def f():", "    ", *lines[4:])
    assert item.new_line().is_correct("a = g(")


def test_the_kinds_come_in_their_proportions_also_where_few_lines_have_them(tmp_path: Path) -> None:
    """Two lines of three have neither indentation nor a place within: the third makes up for them."""
    body = "".join(f"else:\nvalue{n}\n    value_{n} = compute(alpha, {n})\n" for n in range(1000))
    (tmp_path / "module.py").write_text(body)
    drawn = sample_lines(tmp_path, "module", 800, seed=3)
    counts = Counter(item.stratum for item in drawn)
    assert len(drawn) == 800
    for stratum, share in STRATA.items():
        # Three standard deviations of a share.
        sigma = (share * (1 - share) / 800) ** 0.5
        assert counts[stratum] / len(drawn) == pytest.approx(share, abs=3 * sigma)


def test_a_source_without_some_kind_gives_what_it_has(tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text("".join(f"v{n:03} = 1\n" for n in range(90)))
    drawn = sample_lines(tmp_path, "module", 200, seed=3)
    assert len(drawn) == 90
    assert {item.stratum for item in drawn} == {"line-start", "mid-line", "mid-word"}


def test_other_peoples_hidden_and_linked_files_are_left_out(tmp_path: Path) -> None:
    for name in (
        "a.py",
        "sub/b.py",
        ".venv/c.py",
        ".hidden/d.py",
        "sub/node_modules/e.py",
        "build/f.py",
        "g.txt",
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("value = compute(1)\n" * 5)
    assert [path.name for path in source_files(tmp_path)] == ["a.py", "b.py"]
    (tmp_path / "linked.py").symlink_to(tmp_path / "g.txt")
    (tmp_path / "dangling.py").symlink_to(tmp_path / "nothing")
    assert {item.id.split("/", 1)[1].split(":")[0] for item in sample_lines(tmp_path, "g", 50)} == {
        "a.py",
        "sub/b.py",
    }


def test_lines_of_other_languages_leave_out_copies_and_what_programs_wrote(tmp_path: Path) -> None:
    code = "".join(f"    total += compute({n});  // again\n" for n in range(9))
    for name, text in {
        "src/a.js": code,
        "src/b.ts": code,
        "src/types.d.ts": code,
        "node_modules/x/c.js": code,
        "vendor/d.js": code,
        "third_party/e.js": code,
        "dist/f.js": code,
        "src/g.min.js": code,
        "src/h.js": f"// Code generated by a program. DO NOT EDIT.\n{code}",
        "src/i.js": "var x=1;" * 90 + "\n" + code[:100],
        "src/j.h": code,
        "src/k.cc": code,
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    files = {
        language: {item.id.split(":")[0] for item in sample_lines(tmp_path, "g", 90, 0, language)}
        for language in ("javascript", "typescript", "cpp")
    }
    assert files == {
        "javascript": {"g/src/a.js"},
        "typescript": {"g/src/b.ts"},
        "cpp": {"g/src/j.h", "g/src/k.cc"},
    }
    assert {item.cursor.language for item in sample_lines(tmp_path, "g", 9, 0, "cpp")} == {"cpp"}
    with pytest.raises(DataError, match="no Java source"):
        sample_lines(tmp_path, "g", 9, 0, "java")


def test_the_language_is_python_or_the_only_one(tmp_path: Path) -> None:
    for name in (
        "go/a.go",
        "go/b.md",
        "mixed/a.go",
        "mixed/a.rs",
        "python/a.go",
        "python/a.py",
        "c/a.c",
        "c/a.h",
    ):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("total = compute(1)\n" * 30)
    assert language_below([tmp_path / "go"]) == "go"
    assert language_below([tmp_path / "c"]) == "c"
    assert language_below([tmp_path / "python", tmp_path / "go"]) == "python"
    assert language_below([tmp_path / "go" / "a.go"]) == "go"
    with pytest.raises(DataError, match=r"source in Go, Rust: .* --language go"):
        line_task([tmp_path / "mixed"], 20, 0)
    assert line_task([tmp_path / "mixed"], 20, 0, language="rust").language == "rust"
    with pytest.raises(SettingsError, match=r"'cobol' cannot be read\. Known languages: c, "):
        line_task([tmp_path / "mixed"], 20, 0, language="cobol")


def test_what_cannot_be_read_as_source_is_passed_over(tmp_path: Path) -> None:
    """Folders called *.py, binary content, data of a size that nobody wrote, files without permission."""
    (tmp_path / "good.py").write_text("value = compute(1)\n" * 9)
    (tmp_path / "folder.py").mkdir()
    (tmp_path / "binary.py").write_bytes(b"value = '\xff\xfe'\n")
    (tmp_path / "data.py").write_text("x = 1234567\n" * 50_000)
    closed = tmp_path / "closed.py"
    closed.write_text("value = compute(2)\n" * 9)
    closed.chmod(0)
    files = {item.id.split(":")[0] for item in sample_lines(tmp_path, "g", 50)}
    assert "g/good.py" in files
    assert files <= {"g/good.py", *(["g/closed.py"] if os.geteuid() == 0 else [])}


def test_no_python_source_is_a_data_error_that_names_the_folder(tmp_path: Path) -> None:
    (tmp_path / "only_prose.py").write_text('"""Text."""\n# more\n\n')
    with pytest.raises(DataError, match=str(tmp_path)):
        sample_lines(tmp_path, "g", 10)


def test_a_single_file_can_be_drawn_from(tmp_path: Path) -> None:
    path = tmp_path / "one.py"
    path.write_text("value = compute(1)\r\nother = value.there\r\n")
    items = sample_lines(path, "g", 10, seed=1)
    assert items
    for item in items:
        assert item.id.startswith("g/one.py:")
        assert "\r" not in item.target


@pytest.mark.parametrize(
    ("name", "language", "message"),
    [
        ("README.md", None, r"README\.md is not a Python file"),
        (
            "Makefile",
            "python",
            r"Makefile is not a Python file.*Leave it out, or name the folder of the source\.",
        ),
        ("one.go", "java", r"one\.go is not a Java file.*--language go\."),
        ("one.pyi", "python", r"one\.pyi is a stub"),
        ("one.h", "go", r"one\.h is not a Go file"),
    ],
)
def test_a_file_of_something_else_is_refused(
    tmp_path: Path, name: str, language: str | None, message: str
) -> None:
    path = tmp_path / name
    path.write_text("value = compute(1)\n" * 30)
    with pytest.raises(DataError, match=message):
        line_task([path], 20, 0, language=language)
    with pytest.raises(DataError, match=message):
        documented_task([path], 20, 0, language=language)


@pytest.mark.parametrize("language", ["c", "cpp"])
def test_a_header_that_is_named_may_be_of_either_language(tmp_path: Path, language: str) -> None:
    path = tmp_path / "one.h"
    path.write_text("int total = compute(1, 2);\n" * 30)
    assert line_task([path], 20, 0, language=language).language == language


def test_a_header_is_of_the_language_of_the_files_beside_it(tmp_path: Path) -> None:
    files = "plain/a.c", "plain/a.h", "both/a.c", "both/a.cc", "both/a.h", "include/b.h", "alone/c.h"
    for name in files:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()

    def of(name: str, root: Path = tmp_path) -> str:
        return language_of_file(tmp_path / name, root)

    assert (of("plain/a.h"), of("both/a.h"), of("plain/a.c"), of("both/a.cc")) == ("c", "cpp", "c", "cpp")
    # Nothing is beside it: the project has C++.
    assert of("include/b.h") == "cpp"
    assert of("alone/c.h", tmp_path / "alone") == "c"
    assert of("gone/c.h", tmp_path / "gone") == "c"


def test_a_project_in_another_is_refused(tmp_path: Path) -> None:
    """Its lines would be drawn as lines of both."""
    inner = tmp_path / "all" / "inner"
    inner.mkdir(parents=True)
    (inner / "a.py").write_text("value = compute(1)\n" * 30)
    own = inner / "own.jsonl"
    own.write_text(
        "".join(f'{{"before": "x = ", "target": "{n}", "language": "python"}}\n' for n in range(30))
    )
    for other in (inner, inner / "a.py"):
        with pytest.raises(DataError, match=rf"{other} lies in {tmp_path / 'all'}: "):
            line_task([other, tmp_path / "all"], 20, 0)
    (tmp_path / "all2").mkdir()
    (tmp_path / "all2" / "b.py").write_text("value = compute(1)\n" * 30)
    assert len(line_task([own, tmp_path / "all", tmp_path / "all2"], 30, 0).items) == 30


LARGE = Layout.of(load_cards()["qwen2.5-coder-1.5b"], WindowSize.LARGE)


def project(tmp_path: Path) -> tuple[Path, LineItem]:
    root = tmp_path / "demo-1.2.0"
    (root / "app").mkdir(parents=True)
    body = "".join(f"    total_{n} = invoice.net * rate_{n}\n" for n in range(30))
    (root / "app" / "bill.py").write_text(f"from app import rates\n\ndef bill(invoice):\n{body}")
    (root / "app" / "rates.py").write_text("".join(f"rate_{n} = invoice_rate({n})\n" for n in range(30)))
    (root / "app" / "credentials.json").write_text('{"key": "invoice rate total"}')
    (root / "app" / "made.py").write_text("# Generated by a tool. DO NOT EDIT.\n" + body)
    (root / "app" / "link.py").symlink_to(root / "app" / "rates.py")
    (root / "app" / "binary.py").write_bytes(b"invoice rate \xff\xfe total\n" * 20)
    items = sample_lines(root, root.name, 60, 0)
    return root, next(item for item in items if item.name == "app/bill.py" and item.cursor.line > 5)


def test_files_that_the_document_uses_are_shown_and_no_others(tmp_path: Path) -> None:
    _, item = project(tmp_path)
    found = surroundings_of(item, LARGE)
    assert (found.project, found.name) == ("demo", "app/bill.py")
    assert {piece.name for piece in found.snippets} == {"app/rates.py"}
    shown = build_prompt(item.cursor, LARGE, found)
    assert (Segment.CONTROL, "<|file_sep|>") in shown.segments
    assert any("rate_3 = invoice_rate(3)" in text for kind, text in shown.segments if kind is Segment.TEXT)


def test_a_small_window_and_a_place_without_a_project_have_none(tmp_path: Path) -> None:
    _, item = project(tmp_path)
    small = Layout.of(load_cards()["qwen2.5-coder-1.5b"])
    assert surroundings_of(item, small) == ALONE
    assert surroundings_of(attrs.evolve(item, root="", name=""), LARGE) == ALONE


def test_a_line_of_a_commit_has_pieces_of_its_own_document_alone(tmp_path: Path) -> None:
    """Other files are there as they are today: they may hold what was written after the line."""
    _, item = project(tmp_path)
    lines = [*item.cursor.lines, *["pass"] * 200, "total_7 = invoice.net * rate_7", *item.cursor.lines[:20]]
    far = attrs.evolve(item, cursor=attrs.evolve(item.cursor, lines=lines), root="", source=GIT)
    found = surroundings_of(far, LARGE)
    assert (found.project, found.name) == ("demo", "app/bill.py")
    assert {piece.name for piece in found.snippets} == {"app/bill.py"}


def test_the_line_itself_is_not_shown_by_another_way(tmp_path: Path) -> None:
    """The file on disk holds the answer; the document that is shown is the one without it."""
    root, item = project(tmp_path)
    lines = [*(root / "app" / "bill.py").read_text().splitlines()]
    target = lines[item.cursor.line]
    on = item.writing_on()
    for one in (item, on):
        prompt = build_prompt(one.cursor, LARGE, surroundings_of(one, LARGE))
        assert target not in "\n".join(text for _, text in prompt.segments).split("\n")


@pytest.mark.parametrize(
    ("before", "completion", "target", "same"),
    [
        ("    x = ", "1", "1", True),
        ("    x = ", "1  ", "1", True),
        ("", "    x = 1", "x = 1", True),
        ("    x =", "1", " 1", False),
        ("", "", "x", False),
    ],
)
def test_an_exact_match_forgives_white_space_at_the_ends(
    before: str, completion: str, target: str, same: bool
) -> None:
    item = LineItem("p/a.py:1:1", "p", "mid-line", Cursor([before], 0, len(before)), target)
    assert item.is_correct(completion) is same
