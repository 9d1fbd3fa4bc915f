"""What a user does with a suggestion in a real Neovim, and what the server learns of it.

The server is the real one; its engine answers as a script says, so that each outcome is known.
"""

from __future__ import annotations

import itertools
import math
import re
import time
from pathlib import Path
from typing import Any

import pytest
from nvim import NO_NVIM, NVIM, SOURCE, Neovim, labels, rising, scripted
from scripted_editor import install_curve, install_second

pytestmark = pytest.mark.skipif(not NVIM, reason=NO_NVIM)

REST = "turn first * second"
# Beside the first there are "turn second * first" and "turn 1".
ANSWER: dict[str, Any] = {
    "text": REST,
    "tokens": ["turn", " first", " * second", ""],
    "logprobs": [math.log(0.9), math.log(0.6), math.log(0.9), 0.0],
    "seconds": [[100.0, None], [math.log(3), 50], [math.log(8), 60], [100.0, None]],
    "ways": {
        "50": {"text": "turn second * first", "tokens": [" * first"], "logprobs": [0.0]},
        "60": {"text": "turn first + 1", "tokens": [""], "logprobs": [0.0]},
    },
}
SCRIPT = {"answers": {"    re": ANSWER}}
# It can be trusted up to the word "first".
HALF_SURE: dict[str, Any] = {
    "text": REST,
    "tokens": ["turn", " first", " *", " second"],
    "logprobs": [-0.01, -0.01, -1.97, -0.01],
    "entropies": [0.1, 0.1, 2.0, 0.1],
}


@pytest.fixture
def nvim(open_scripted) -> Neovim:
    editor = open_scripted(SCRIPT)
    assert editor.suggested("G$A    re")[0] == REST
    return editor


def settled(nvim: Neovim, home: Path) -> list[tuple[str, int]]:
    """The labels once the file has been saved: how each came about, and whether the suggestion was right."""
    nvim.keys("<Esc>:silent write<CR>")
    return nvim.until("a label", lambda: labels(home))


def test_without_24_bit_colours_ghost_text_is_grey(nvim: Neovim) -> None:
    """Otherwise nothing but the badge tells it from what was typed."""
    assert nvim.lua("return vim.o.termguicolors and 1 or 0") == 0
    for group in ("ComplHint", "LspCalibUnsure"):
        found = nvim.lua(f"return vim.api.nvim_get_hl(0, {{ name = '{group}', link = false }})")
        assert found["ctermfg"], group


def test_typing_on_and_accepting_at_once_leaves_no_stray_characters(nvim: Neovim) -> None:
    """Neovim alone would leave what was typed since the answer behind the accepted text."""
    nvim.keys(REST[:2] + "<Tab>")
    nvim.until("the suggestion, once", lambda: nvim.line() == "    re" + REST)


def test_ghost_text_stays_while_it_is_typed_and_goes_at_once_when_it_is_not(nvim: Neovim) -> None:
    """Without another answer: Neovim alone would show the rest of the suggestion behind what was typed."""
    nvim.lua("vim.lsp.get_clients()[1].request = function() return false end")
    nvim.keys(REST[0])
    nvim.until("the rest", lambda: nvim.ghost() == REST[1:] and nvim.badges())
    nvim.keys("x")
    nvim.until("no ghost text and no badge", lambda: not nvim.ghosts() and not nvim.badges())
    assert nvim.line() == f"    re{REST[0]}x"
    nvim.keys("<Tab>y")
    nvim.until("a tab", lambda: re.fullmatch(rf"    re{REST[0]}x\s+y", nvim.line()))


@pytest.mark.parametrize("pause", [0.0, 0.4], ids=["between answers", "an answer a key"])
def test_typed_along_the_badge_changes_in_place_and_no_text_moves(
    open_scripted, folder: Path, pause: float
) -> None:
    """Each picture that Neovim sends to its terminal has line and badge, and the line ends where it did."""
    pytest.importorskip("pyte")
    nvim = open_scripted(SCRIPT, server=rising(scripted(folder, SCRIPT)))
    assert nvim.suggested("G$A    re")[1].split() == ["✗", "reject", "10", "%"]
    screen = nvim.film()
    for key in REST[:12]:
        screen.keys(key)
        time.sleep(pause)
    nvim.until("the last badge", lambda: nvim.badges()[0][1][0][0].split()[1:] == ["accept", "86", "%"])
    nvim.until("it on the screen", lambda: "86 %" in screen.text())
    screen.close()
    seen = [text for _, text, _ in screen.pictures]
    whole = re.escape("    re" + REST)
    assert [text for text in seen if not re.fullmatch(rf"{whole}   [●▲✗] \w+ \d+ %", text)] == []
    numbers = [int(text.split()[-2]) for text in seen]
    assert numbers == sorted(numbers)
    assert len(set(numbers)) >= (10 if pause else 2), numbers


def test_a_surer_second_answer_is_the_next_one_and_never_in_the_place_of_what_is_read(
    open_scripted, folder: Path, home: Path
) -> None:
    """The pictures that Neovim sends to its terminal: one suggestion until the other is there, then that."""
    pytest.importorskip("pyte")
    release, other = folder / "release", "turn first - second"
    second = {"text": other, "logprobs": [math.log(0.95)] * 3, "heldUntil": str(release)}
    script = SCRIPT | {"second": second, "journal": str(folder / "journal")}
    install_second(home)
    setup = {"keys": "suggested", "settings": {"window": "small"}}
    nvim = open_scripted(script, setup=setup)
    assert nvim.suggested("G$A    re")[0] == REST
    screen = nvim.film()
    nvim.keys("<M-n>")
    asked = folder / "journal"
    nvim.until("the second answer is asked for", lambda: asked.read_text().count('"asked"') == 2)
    time.sleep(0.5)
    waiting = len(screen.pictures)
    release.touch()
    nvim.until("the surer one", lambda: nvim.ghost() == other and "accept" in str(nvim.badges()))
    nvim.until("it on the screen", lambda: "accept" in screen.text() and other in screen.text())
    screen.close()
    seen = [text for _, text, _ in screen.pictures]
    lines = [re.sub(r"( \(\d/\d\))?( +[●▲✗] .*)?$", "", text) for text in seen]  # 2/4: of the alternatives
    assert len(set(seen[:waiting])) <= 1, "while the model works nothing moves"
    assert [line for line, _ in itertools.groupby(lines)] == ["    re" + REST, "    re" + other]
    nvim.keys("<M-p>")
    nvim.until("the first one again", lambda: nvim.ghost() == REST)
    assert "reject" in str(nvim.badges()), "it says what it is worth beside the surer one"


def test_a_key_that_leaves_the_suggestion_asks_for_another(open_scripted) -> None:
    """Neovim drops the request of that key when it takes the old suggestion off the screen."""
    other = {"text": "d second", "tokens": ["d second", ""], "logprobs": [math.log(0.9), 0.0]}
    nvim = open_scripted({"answers": SCRIPT["answers"] | {"    rea": other}})
    assert nvim.suggested("G$A    re")[0] == REST
    nvim.keys("a")
    nvim.until("the other suggestion", lambda: nvim.ghost() == "d second" and nvim.badges())


def test_what_was_typed_before_the_server_ran_gets_a_suggestion(open_scripted) -> None:
    nvim = open_scripted(SCRIPT, attached=False)
    assert nvim.suggested("G$A    re")[0] == REST


def test_the_badge_goes_with_the_suggestion_and_tab_is_a_tab_again(nvim: Neovim) -> None:
    nvim.keys("<Esc>")
    nvim.until("no ghost text and no badge", lambda: not nvim.ghosts() and not nvim.badges())
    nvim.keys("o<Tab>x")
    nvim.until("an indented line", lambda: nvim.line().endswith("\tx") or nvim.line() == "        x")


def test_word_by_word_the_rest_stays_and_the_label_is_kept_in_parts(nvim: Neovim, home: Path) -> None:
    """The server learns of it from the document alone: the last word completes the suggestion."""
    line = "    re"
    for word in ("turn", " first", " *", " second"):
        nvim.keys("<M-Right>")
        line += word
        nvim.until(f"the line ends with {word!r}", lambda expected=line: nvim.line() == expected)
        rest = ("    re" + REST)[len(line) :]
        nvim.until(f"ghost text {rest!r}", lambda expected=rest: nvim.ghost() == expected)
        nvim.until("its badge, or none", lambda expected=rest: len(nvim.badges()) == bool(expected))
        time.sleep(0.25)  # Neovim reports what changes within 150 ms as one change
    assert settled(nvim, home) == [("kept in parts", 1)]


def test_the_part_that_can_be_trusted_is_accepted_alone_and_the_rest_stays(open_scripted, home: Path) -> None:
    """The badge says how far, and the rest is dimmed; then the key does what it does without a suggestion."""
    install_curve(home)
    nvim = open_scripted({"answers": {"    re": HALF_SURE}})
    _, badge, _ = nvim.suggested("G$A    re")
    assert badge.strip() == "▲ review 61 %, sure up to first"
    (_, chunks, _) = nvim.ghosts()[0]
    assert chunks == [["turn first", "ComplHint"], [" * second", "LspCalibUnsure"]]
    nvim.keys("<M-s>")
    nvim.until("the part", lambda: nvim.line() == "    return first")
    nvim.until("the rest", lambda: nvim.ghost() == " * second")
    time.sleep(0.25)
    nvim.keys("<Tab>")
    nvim.until("all of it", lambda: nvim.line() == "    re" + REST)
    assert settled(nvim, home) == [("kept in parts", 1)]


def test_of_an_accepted_line_the_key_takes_all(open_scripted, home: Path) -> None:
    """Its tier says that it can be trusted to its end: the server names no part of it."""
    install_curve(home)
    answer = {
        "text": REST,
        "tokens": ["turn", " first", " *", " second"],
        "logprobs": [-0.01] * 4,
        "entropies": [0.1] * 4,
    }
    nvim = open_scripted({"answers": {"    re": answer}})
    _, badge, _ = nvim.suggested("G$A    re")
    assert badge.strip().startswith("● accept ")
    assert "sure up to" not in badge
    nvim.keys("<M-s>")
    nvim.until("all of it", lambda: nvim.line() == "    re" + REST)
    assert settled(nvim, home) == [("kept", 1)]


def test_typed_along_what_cannot_be_trusted_is_dimmed_in_every_picture(open_scripted, home: Path) -> None:
    pytest.importorskip("pyte")
    install_curve(home)
    nvim = open_scripted({"answers": {"    re": HALF_SURE}})
    nvim.suggested("G$A    re")
    screen = nvim.film()
    for key in "turn ":
        screen.keys(key)
        time.sleep(0.3)
    nvim.until("the letters", lambda: nvim.line() == "    return ")
    screen.close()
    part = len("    return first")
    for _, text, cells in screen.pictures:
        assert text.startswith("    re" + REST)
        slanted = [cell.italics for cell in cells[: len("    re" + REST)]]
        assert slanted == [False] * part + [True] * len(" * second")


def test_words_accepted_in_one_burst_of_keys_come_one_after_the_other(nvim: Neovim) -> None:
    nvim.keys("<M-Right><M-Right>")
    nvim.until("two words", lambda: nvim.line() == "    return first")
    nvim.until("the rest", lambda: nvim.ghost() == " * second")


def test_a_word_is_not_inserted_once_insert_mode_has_ended(nvim: Neovim) -> None:
    nvim.keys("<M-Right><Esc>")
    nvim.until("nothing on screen", lambda: not nvim.ghosts())
    time.sleep(0.3)
    assert nvim.line() == "    re"


def test_tab_is_a_tab_on_the_next_line_before_its_answer(open_scripted, folder: Path) -> None:
    held = {"text": "", "heldUntil": str(folder / "never")}
    nvim = open_scripted(SCRIPT | {"otherwise": held, "inOrder": []})
    assert nvim.suggested("G$A    re")[0] == REST
    nvim.keys(REST + "<CR><Tab>x")
    nvim.until("an indented line", lambda: nvim.lines()[-1].endswith("x"))
    assert nvim.lines()[-2] == "    re" + REST
    assert nvim.lines()[-1][:-1].isspace()


def test_a_part_accepted_and_the_rest_typed_otherwise_is_no_success(nvim: Neovim, home: Path) -> None:
    nvim.keys("<M-Right>")
    nvim.until("a word", lambda: nvim.line() == "    return")
    nvim.until("the rest", lambda: nvim.ghost() == " first * second")
    nvim.keys(" 0")
    nvim.until("no suggestion", lambda: not nvim.ghosts())
    assert [correct for _, correct in settled(nvim, home)] == [0]


def test_a_mark_stands_at_what_was_accepted_until_it_is_reviewed(nvim: Neovim) -> None:
    nvim.keys("<Tab>")
    nvim.until("the line", lambda: nvim.line() == "    re" + REST)
    nvim.keys("<Esc>")
    nvim.until("a mark", nvim.marked)
    nvim.keys(":LspCalib why<CR>")
    nvim.says(nvim.marked()[0]["message"].splitlines()[0][:40])
    nvim.keys("<CR>:LspCalib reviewed<CR>")
    nvim.until("no mark", lambda: not nvim.marked())


def test_alternatives_are_stepped_through_and_accepted(nvim: Neovim) -> None:
    nvim.keys("<M-n>")
    second = nvim.until("another one", lambda: (ghost := nvim.ghost()) not in ("", REST) and ghost)
    assert second.startswith("turn second * first")
    nvim.keys("<M-p>")
    nvim.until("the first one", lambda: nvim.ghost().startswith(REST))
    nvim.keys("<M-n><Tab>")
    nvim.until("the second in the line", lambda: nvim.line() == "    return second * first")


@pytest.fixture
def paused(open_scripted) -> Neovim:
    """No suggestion comes by itself."""
    editor = open_scripted(SCRIPT)
    editor.keys(":LspCalib pause<CR>")
    editor.says("paused until")
    return editor


@pytest.mark.parametrize("keys", ["<M-n>", "<Cmd>LspCalib trigger<CR>", "<Esc>:LspCalib trigger<CR>"])
def test_asked_for_by_hand_it_comes_with_alternatives(paused: Neovim, keys: str) -> None:
    """From normal mode, insert mode begins behind the cursor."""
    paused.keys("G$A    re")
    time.sleep(0.6)
    assert not paused.ghosts()
    assert paused.suggested(keys)[0] == REST
    paused.lua("vim.lsp.get_clients()[1].request = function() return false end")  # they are there already
    paused.keys("<M-n>")
    paused.until("the next one", lambda: paused.ghost().startswith("turn second * first"))
    paused.keys("<Tab>")
    paused.until("it in the line", lambda: paused.line() == "    return second * first")


def test_asked_for_by_hand_and_nothing_to_offer_the_reason_is_told(paused: Neovim) -> None:
    paused.keys("G$A    xy<M-n>")
    paused.says("The model has nothing to add here.")
    assert paused.line() == "    xy"
    assert paused.lua("return vim.api.nvim_get_mode().mode") == "i"


def test_what_cannot_be_asked_for_is_told(paused: Neovim) -> None:
    paused.keys(":LspCalib toggle<CR>:LspCalib trigger<CR>")
    paused.says("no suggestion can be asked for here")


# A list in a window of its own, as many plugins have it: it takes insert mode away.
WINDOW = """
vim.ui.select = function(items, options, done)
  local buf = vim.api.nvim_create_buf(false, true)
  vim.api.nvim_buf_set_lines(buf, 0, -1, false, vim.tbl_map(options.format_item, items))
  local place = { relative = [[editor]], row = 3, col = 3, width = 40, height = 5 }
  local win = vim.api.nvim_open_win(buf, true, place)
  vim.cmd.stopinsert()
  vim.keymap.set([[n]], [[<CR>]], function()
    local at = vim.api.nvim_win_get_cursor(win)[1]
    vim.api.nvim_win_close(win, true)
    done(items[at], at)
  end, { buffer = buf })
  vim.g.listed = #items
end
"""


@pytest.mark.parametrize("typed", ["", "tu"])
def test_an_alternative_is_chosen_from_a_window_that_ends_insert_mode(
    nvim: Neovim, home: Path, typed: str
) -> None:
    nvim.lua(WINDOW)
    nvim.keys("<M-n>")
    nvim.until("alternatives", lambda: nvim.ghost() not in ("", REST))
    nvim.keys(f"{typed}<Cmd>LspCalib alternatives<CR>")
    nvim.until("a list", lambda: nvim.lua("return vim.g.listed") == 3)
    nvim.until("normal mode", lambda: nvim.lua("return vim.api.nvim_get_mode().mode") == "n")
    nvim.keys("j<CR>")
    nvim.until("the second in the line", lambda: nvim.line() == "    return second * first")
    nvim.until("the cursor at its end", lambda: nvim.lua("return vim.fn.col('.')") == len(nvim.line()))
    nvim.until("a mark, since the server was told", nvim.marked)
    assert ("kept", 1) in settled(nvim, home)


def test_a_choice_from_a_list_changes_nothing_if_the_text_has_changed_since(nvim: Neovim) -> None:
    nvim.lua("vim.ui.select = function(items, _, done) _G.choose = function() done(items[2], 2) end end")
    nvim.keys("<Cmd>LspCalib alternatives<CR>")
    nvim.until("a list", lambda: nvim.lua("return _G.choose ~= nil"))
    nvim.keys("moved")
    nvim.until("the text", lambda: nvim.line() == "    removed")
    nvim.lua("_G.choose()")
    time.sleep(0.3)
    assert nvim.line() == "    removed"


def test_an_alternative_that_is_the_end_of_another_has_its_own_badge(open_scripted) -> None:
    answer = {
        "text": "not ready",
        "tokens": ["not", " ready", ""],
        "logprobs": [math.log(0.6), math.log(0.9), 0.0],
        "seconds": [[math.log(2), 50], [100.0, None], [100.0, None]],
        "ways": {"50": {"text": "ready", "tokens": [""], "logprobs": [0.0]}},
    }
    nvim = open_scripted({"answers": {"    return ": answer}})
    nvim.lua(
        "vim.ui.select = function(items) vim.g.badges = vim.tbl_map(function(item)"
        " return require('lsp_calib.badges').text(item.command.arguments[1]) end, items) end"
    )
    assert nvim.suggested("G$A    return ")[0] == "not ready"
    nvim.keys("<Cmd>LspCalib alternatives<CR>")
    first, second = nvim.until("two", lambda: nvim.lua("return vim.g.badges"))
    assert first != second
    assert nvim.badges()[0][1][0][0].strip() == first
    nvim.keys("<M-n>")
    nvim.until("the second", lambda: nvim.ghost() == "ready")
    nvim.until("its badge", lambda: nvim.badges()[0][1][0][0].strip() == second)
    nvim.keys("re")
    nvim.until("the rest of it", lambda: nvim.ghost() == "ady")
    nvim.until("its badge still", lambda: nvim.badges() and nvim.badges()[0][1][0][0].strip() == second)
    nvim.keys("<Tab>")
    nvim.until("the second in the line", lambda: nvim.line() == "    return ready")


@pytest.mark.parametrize("away", ["<Esc>o<C-u>", "<M-e><CR><C-u>"])
def test_a_wish_for_alternatives_ends_with_its_suggestion(open_scripted, away: str) -> None:
    """A later suggestion is none that was asked for by hand: a pause holds."""
    nvim = open_scripted({"answers": {"    re": ANSWER, "    q": ANSWER}})
    nvim.lua("vim.ui.select = function() vim.g.listed = true end")
    assert nvim.suggested("G$A    re")[0] == REST
    nvim.keys("<Cmd>LspCalib alternatives<CR>" + away)
    nvim.until("the next line", lambda: nvim.line() == "")
    nvim.keys("<Cmd>LspCalib pause<CR>")
    nvim.until("a pause", lambda: nvim.lua("return require('lsp_calib').statusline()") == "‖ paused")
    nvim.keys("    q")
    nvim.until("the text", lambda: nvim.line() == "    q")
    time.sleep(1)
    assert not nvim.ghosts()
    assert not nvim.lua("return vim.g.listed")


def test_a_dismissed_suggestion_goes_and_typing_goes_on(nvim: Neovim) -> None:
    nvim.keys("<M-e>")
    nvim.until("nothing on screen", lambda: not nvim.ghosts() and not nvim.badges())
    nvim.keys("x")
    nvim.until("a letter", lambda: nvim.line() == "    rex")


def test_line_by_line_through_a_block(open_scripted, folder: Path, file: Path) -> None:
    """Up to the end of the line; the next lines come with the next press, none of them twice."""
    script = {
        "answers": {
            "    ": {"text": "total = 0", "tokens": ["total = 0", ""], "logprobs": [-0.05, -0.01]},
            # Neovim asks again 200 ms after the first line is accepted: an answer would take the rest away.
            "    total = 0": {"text": "", "heldUntil": str(folder / "never")},
        },
        "inOrder": [
            {"text": "    total += first", "tokens": ["    total += first", ""], "logprobs": [-0.05, -0.01]},
            {"text": "", "tokens": [""], "logprobs": [-0.01]},
        ],
    }
    file.write_text(f"{SOURCE}   ")
    nvim = open_scripted(script, setup={"keys": "suggested"})
    nvim.keys("G$A <Cmd>LspCalib trigger<CR>")
    nvim.until("a block", lambda: nvim.ghost() == "total = 0\n    total += first")
    nvim.keys("<M-Down>")
    nvim.until("its first line", lambda: nvim.line() == "    total = 0")
    assert nvim.lines()[-1] == "    total = 0"
    nvim.until("the rest of the block", lambda: nvim.ghost() == "\n    total += first")
    nvim.keys("<M-Down>")
    nvim.until("its second line", lambda: nvim.lines()[-2:] == ["    total = 0", "    total += first"])


def lined(text: str, p: float) -> dict[str, Any]:
    return {"text": text, "tokens": [text, ""], "logprobs": [math.log(p), -0.0001]}


class TestBlock:
    """By hand on an empty line; the last two of its lines are rejected."""

    LINES = ("total = 0", "    total += first", "    total *= 2", "    return total", "    # the end")

    def script(self, first: float = 0.97, **second: Any) -> dict[str, Any]:
        below = [lined(text, p) for text, p in zip(self.LINES[1:], (0.95, 0.3, 0.02, 0.9), strict=True)]
        return {
            "answers": {"    ": lined(self.LINES[0], first)},
            "inOrder": [below[0] | second, *below[1:], {"text": ""}, {"text": ""}],
        }

    def groups(self, nvim: Neovim) -> list[str]:
        """The highlight of each line of the ghost text."""
        return [chunks[0][1] for _, first, below in nvim.ghosts() for chunks in (first, *below)]

    @pytest.mark.parametrize("how", ["<M-n>", "<Cmd>LspCalib trigger<CR>"])
    def test_its_rejected_lines_are_fainter_and_a_key_takes_those_to_accept(
        self, open_scripted, home: Path, how: str
    ) -> None:
        nvim = open_scripted(self.script(), setup={"keys": "suggested"})
        nvim.keys(f"G$A    {how}")
        nvim.until("a block", lambda: nvim.ghost() == "\n".join(self.LINES))
        faint = [*["ComplHint"] * 3, *["LspCalibBlockFaint"] * 2]
        nvim.until("faint lines", lambda: self.groups(nvim) == faint)
        assert nvim.badges()[0][1][0][0].strip().startswith("● accept through line 2 ")
        nvim.keys("<M-s>")
        taken = ["    total = 0", "    total += first"]
        nvim.until("the lines to accept", lambda: nvim.lines()[-2:] == taken)
        assert nvim.lua("return vim.api.nvim_win_get_cursor(0)[2]") == len(taken[-1])
        assert nvim.lua("return vim.api.nvim_get_mode().mode") == "i"
        assert settled(nvim, home) == [("kept", 1)]

    def test_in_place_of_the_line_that_was_there_by_itself(self, open_scripted) -> None:
        nvim = open_scripted(self.script(), setup={"keys": "suggested"})
        nvim.keys("G$A    ")
        nvim.until("a line", lambda: nvim.ghost() == self.LINES[0])
        nvim.keys("<M-n>")
        nvim.until("a block", lambda: nvim.ghost() == "\n".join(self.LINES))

    def test_where_nothing_is_sure_the_key_does_nothing(self, open_scripted) -> None:
        nvim = open_scripted(self.script(0.01), setup={"keys": "suggested"})
        nvim.keys("G$A    <M-n>")
        nvim.until("a block", lambda: nvim.ghost() == "\n".join(self.LINES))
        nvim.until("all of it faint", lambda: set(self.groups(nvim)) == {"LspCalibBlockFaint"})
        nvim.keys("<M-s>")
        time.sleep(0.3)
        assert nvim.ghost() == "\n".join(self.LINES)
        assert nvim.lines()[-1] == "    "

    def test_how_far_it_is_stands_in_the_line_and_a_key_ends_it(self, open_scripted, folder: Path) -> None:
        nvim = open_scripted(self.script(heldUntil=str(folder / "never")), setup={"keys": "suggested"})
        nvim.keys("G$A    <M-n>")
        nvim.until(
            "the line that is being made",
            lambda: [text for _, ((text, _),), _ in nvim.badges()] == ["  ◌ Completing a block: line 2"],
        )
        nvim.keys("t")
        nvim.until("the rest of the first line alone", lambda: nvim.ghost() == self.LINES[0][1:])


class TestBlockBetweenBrackets:
    """While its first line is typed, a plugin closes the bracket behind the cursor: it stays the only one."""

    WHOLE = ("    total = f(first)", "    total += first")

    @pytest.fixture
    def nvim(self, open_scripted) -> Neovim:
        first, below = self.WHOLE[0].strip(), self.WHOLE[1]
        answers = [
            {"text": text, "tokens": [text, ""], "logprobs": [-0.05, -0.01]} for text in (first, below)
        ]
        script = {
            "answers": {"    ": answers[0]},
            "inOrder": [answers[1], {"text": "", "tokens": [""], "logprobs": [-0.01]}],
        }
        nvim = open_scripted(script, setup={"keys": "suggested"})
        nvim.keys("G$A    <Cmd>LspCalib trigger<CR>")
        nvim.until("a block", lambda: nvim.ghost() == f"{first}\n{below}")
        return nvim

    def between(self, nvim: Neovim) -> None:
        """Types up to the bracket, and waits for the answer there, which replaces the bracket."""
        nvim.keys("total = f()<Left>")
        place = "vim.api.nvim_get_namespaces()['nvim.lsp.inline_completion']"
        marks = f"vim.api.nvim_buf_get_extmarks(0, {place}, 0, -1, {{ details = true }})"
        covers = f"return vim.iter({marks}):any(function(mark) return mark[4].virt_text_pos == 'overlay' end)"
        nvim.until("the rest with the bracket", lambda: nvim.lua(covers))
        assert nvim.ghost() == "first)\n    total += first"

    def whole(self, nvim: Neovim) -> None:
        nvim.until("the block", lambda: tuple(nvim.lines()[-2:]) == self.WHOLE)

    @pytest.mark.parametrize("typed", ["", "fi", "first", "first<Right>", "first<Del>)"])
    def test_accepted_after_so_much_is_typed(self, nvim: Neovim, typed: str) -> None:
        self.between(nvim)
        nvim.keys(typed + "<Tab>")
        self.whole(nvim)

    def test_accepted_before_the_server_knows_of_the_bracket(self, nvim: Neovim) -> None:
        nvim.keys("total = f()<Left><Tab>")
        self.whole(nvim)

    def test_word_by_word(self, nvim: Neovim) -> None:
        self.between(nvim)
        nvim.keys("<M-Right>")
        nvim.until("a word", lambda: nvim.line() == "    total = f(first)")
        nvim.keys("<M-Right>")
        nvim.until("the bracket", lambda: nvim.lua("return vim.api.nvim_win_get_cursor(0)[2]") == 20)
        assert nvim.lines()[-1] == self.WHOLE[0]

    def test_line_by_line(self, nvim: Neovim) -> None:
        self.between(nvim)
        nvim.keys("<M-Down>")
        nvim.until("its first line", lambda: nvim.line() == self.WHOLE[0])
        nvim.keys("<M-Down>")
        self.whole(nvim)


@pytest.mark.parametrize(
    ("keys", "lines"),
    [
        ("<Tab>", ['print("a b");']),
        ("<M-Right>", ['print("a")', 'print("a b")', 'print("a b");']),
    ],
)
def test_a_suggestion_goes_over_what_the_editor_has_closed(
    open_scripted, keys: str, lines: list[str]
) -> None:
    answer = {"text": 'a b");', "tokens": ['a b");', ""], "logprobs": [-0.05, -0.01]}
    nvim = open_scripted({"answers": {'    print("': answer}})
    nvim.keys('G$A    print("")<Left><Left>')
    nvim.until("a suggestion", lambda: nvim.ghost() == 'a b");')
    for line in lines:
        nvim.keys(keys)
        nvim.until(line, lambda line=line: nvim.line() == "    " + line)


@pytest.mark.parametrize("how", ["<Cmd>LspCalib toggle<CR>", "<Cmd>LspCalib restart<CR>", "killed"])
def test_the_badge_goes_when_suggestions_end(nvim: Neovim, how: str) -> None:
    if how == "killed":
        nvim.lua("vim.uv.kill(vim.api.nvim_get_proc_children(vim.fn.getpid())[1], 9)")
    else:
        nvim.keys(how)
    nvim.until("no ghost text", lambda: not nvim.ghosts())
    nvim.until("no badge", lambda: not nvim.badges(), 3)
    assert not re.search("accept|review|reject", nvim.lua("return require('lsp_calib').statusline()"))


def test_toggle_takes_suggestions_away_in_one_buffer(nvim: Neovim) -> None:
    nvim.keys("<Esc>:LspCalib toggle<CR>")
    nvim.says("suggestions are off here")
    nvim.keys("0C    re")
    nvim.until("the text", lambda: nvim.line() == "    re")
    assert not nvim.ghosts()
    nvim.keys("<Esc>:LspCalib toggle<CR>")
    nvim.says("suggestions are on here")
    assert nvim.suggested("0C    re")[0] == REST


OURS = "vim.lsp.get_clients({ name = 'lsp_calib' })[1]"
HOVER = f"""
    local began, params = vim.uv.hrtime(), vim.lsp.util.make_position_params(0, 'utf-16')
    assert({OURS}:request_sync('textDocument/hover', params, 60000, 0))
    return (vim.uv.hrtime() - began) / 1e9
"""


def test_a_hover_does_not_make_another_servers_wait(open_scripted, folder: Path) -> None:
    """Neovim shows hovers once all servers have answered."""
    nvim = open_scripted({"summary": {"text": "Adds.", "heldUntil": str(folder / "never")}})
    nvim.keys("4G5|")
    # The first one may have to load what reads the document.
    assert min(nvim.lua(" ".join(HOVER.split())) for _ in range(2)) < 2.0
