"""What a notebook's kernel takes for commands is no code to a grammar, and stays what it is to the model."""

from __future__ import annotations

import pytest

from lsp_calib.completion.context import Cursor, text_above
from lsp_calib.completion.features import DocumentIndex, text_features
from lsp_calib.completion.service import Selected
from lsp_calib.syntax import functions
from lsp_calib.syntax.magics import CommandLine, with_commands
from lsp_calib.syntax.source_tree import code_of


def read(text: str) -> list[str]:
    """The lines of a cell as a grammar reads them."""
    return [code_of(line) for line in with_commands(tuple(text.split("\n")), "python")]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("%matplotlib inline\nx = 1", ["", "x = 1"]),
        ("!ls *.py", [""]),
        ("df.head?\ndf.head??\n?df\n%time?", ["", "", "", ""]),
        ("if a:\n    %timeit f(1)\n    !ls", ["if a:", "    pass", "    pass"]),
        ("files = !ls\nt = %time f()", ["files = ...", "t = ..."]),
        ("!pip install \\\n  numpy \\\n  scipy\nx = 1", ["", "", "", "x = 1"]),
        ("%%bash\nfor f in *; do\n  echo 'it\ndone", ["", "", "", ""]),
        ("\n%%html\n<b>", ["", "", ""]),
        ("%%time\nx = f(1)\n%pdb", ["", "x = f(1)", ""]),
        # Code, for all that it looks like.
        ("x = (a\n     % b)\nassert (c\n    != d)", ["x = (a", "     % b)", "assert (c", "    != d)"]),
        ('s = """\n%s\n!ls\nwhat?\n"""\n!ls', ['s = """', "%s", "!ls", "what?", '"""', ""]),
        ("x = 1  # right?\n# is it?", ["x = 1  # right?", "# is it?"]),
        ("x = a \\\n    %b", ["x = a \\", "    %b"]),
        ("s = '(' + \"[\" + ')'  # {\n%pwd", ["s = '(' + \"[\" + ')'  # {", ""]),
        ("x != 1\ny = '%s' % z", ["x != 1", "y = '%s' % z"]),
    ],
)
def test_commands_are_told_from_code(text: str, code: list[str]) -> None:
    assert read(text) == code


def test_the_text_stays_as_it_is_and_other_languages_have_no_commands() -> None:
    lines = ("!ls", "x = 1")
    assert [str(line) for line in with_commands(lines, "python")] == ["!ls", "x = 1"]
    assert with_commands(("x = 1", "y = x % 2"), "python") == ("x = 1", "y = x % 2")
    assert with_commands(lines, "r") is lines


def test_a_line_of_code_becomes_a_command_with_the_same_text() -> None:
    """An index of the document must notice."""
    assert CommandLine("x") != "x"
    assert CommandLine("x") == CommandLine("x")
    assert (CommandLine("x"),) != ("x",)


CELLS = (
    *with_commands(("%load_ext autoreload", "!pip install 'x"), "python"),
    "",
    *with_commands(("%%bash", "cat <<'''"), "python"),
    *("", "def weighted(values):", "    return sum(values)", "", "total = "),
)


def test_the_model_sees_commands_and_the_grammar_does_not() -> None:
    cursor = Cursor.at(CELLS, len(CELLS) - 1, len("total = "), "python")
    assert text_above(cursor, 1000).startswith("%load_ext autoreload\n!pip install 'x\n\n%%bash\ncat <<'''\n")
    features = text_features(cursor, "weighted([1])")
    assert (features["broken"], features["new-names"]) == (0.0, 0.0)
    assert [one.name for one in functions(CELLS, "python")] == ["weighted"]
    assert functions(tuple(map(str, CELLS)), "python") == []


def test_a_command_itself_has_no_features_of_syntax() -> None:
    cursor = Cursor.at(with_commands(("%matplotlib in", "x = 1"), "python"), 0, 14, "python")
    assert not {"broken", "new-names"} & text_features(cursor, "line").keys()


def test_the_same_lines_as_commands_have_another_index() -> None:
    """With `%%bash` above them they are code no longer, and then they are again."""
    body = ("x = f(", "echo", "y = 2")
    code = Cursor.at(("a = 1", "", *body), 0, 5, "python")
    shell = Cursor.at(("a = 1", "", *with_commands(("%%bash", *body), "python")), 0, 5, "python")
    assert DocumentIndex(code).is_of(code)
    assert not DocumentIndex(code).is_of(shell)
    assert not DocumentIndex(shell).is_of(code)


def test_a_command_stays_one_without_its_closers() -> None:
    """Without what the editor closes by itself, and with the item of a menu in it."""
    lines = with_commands(("%timeit np.sum()",), "python")
    cursor = Cursor.at(lines, 0, 15, "python").without_closers_behind()
    assert cursor.lines[0] == CommandLine.reading("%timeit np.sum(", lines[0].code)
    assert "broken" not in text_features(cursor, "x)")
    selected = Selected.at(cursor, 11, 15, "mean(")
    assert selected is not None
    assert isinstance(selected.cursor.lines[0], CommandLine)
