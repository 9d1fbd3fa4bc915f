"""The next edit in a real Neovim: when it is asked for, how it is drawn, and what the keys do with it."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from edits_offered import EditsOffered
from nvim import NO_NVIM, NO_OLD_NVIM, NVIM, OLD_NVIM, Neovim, scripted

PROGRAMS = [
    pytest.param(NVIM, marks=pytest.mark.skipif(not NVIM, reason=NO_NVIM), id="0.12"),
    pytest.param(OLD_NVIM, marks=pytest.mark.skipif(not OLD_NVIM, reason=NO_OLD_NVIM), id="0.10"),
]
OLD, PLACE = "LspCalibEditOld", "LspCalibEditPlace"
SPACE = "lsp_calib_next_edit"
REST = 1.1  # seconds after the last change
SOURCE = """\
size = 3
print(size)
other = 4
area = size * size
print("é🦆", size, area)
"""
FAR = SOURCE + "\n" * 200 + "last = size\n"


class Scene(EditsOffered):
    """A Neovim whose server offers the edits that are named, one after the other."""

    nvim: Neovim

    def drawn(self) -> list[tuple[int, str, str, str]]:
        """Of what is drawn: the line, from 1; the text that is marked; its group; what is behind the line."""
        body = f"""
            local ns = vim.api.nvim_create_namespace('{SPACE}')
            local found, texts = {{}}, {{}}
            for _, buf in ipairs(vim.api.nvim_list_bufs()) do
              for _, mark in ipairs(vim.api.nvim_buf_get_extmarks(buf, ns, 0, -1, {{ details = true }})) do
                local row, col, d = mark[2], mark[3], mark[4]
                if d.virt_text then
                  texts[#texts + 1] = table.concat(vim.tbl_map(function(one) return one[1] end, d.virt_text))
                  assert(d.virt_text_pos == 'eol')
                else
                  local text = vim.api.nvim_buf_get_text(buf, row, col, d.end_row, d.end_col, {{}})
                  found[#found + 1] = {{ row + 1, table.concat(text, '|'), d.hl_group }}
                end
              end
            end
            for i, one in ipairs(found) do table.insert(one, texts[i]) end
            return found"""
        return [tuple(one) for one in self.nvim.lua(body) or []]

    def appears(self, *expected: Any) -> None:
        self.nvim.until(f"{expected} is drawn", lambda: self.drawn() == list(expected))

    def is_gone(self) -> None:
        self.nvim.until("nothing is drawn", lambda: not self.drawn())

    def is_at(self, line: int, column: int) -> None:
        where = "return { vim.fn.line('.'), vim.fn.col('.') }"
        self.nvim.until(f"the cursor in {line}:{column}", lambda: self.nvim.lua(where) == [line, column])

    def status(self) -> str:
        return str(self.nvim.lua("return require('lsp_calib').statusline()"))


@pytest.fixture(params=PROGRAMS)
def begin(
    request: pytest.FixtureRequest, open_scripted: Callable[..., Neovim], folder: Path
) -> Callable[..., Scene]:
    def begin_(source: str = SOURCE, **options: Any) -> Scene:
        file = folder / "shapes.py"
        file.write_text(source)
        scene = Scene(folder, file, announced=options.pop("announced", True))
        server = scripted(folder, {})
        if options.pop("offering", True):
            server = " ".join(scene.behind(server))
        scene.nvim = open_scripted({}, file, program=request.param, server=server, **options)
        return scene

    return begin_


def test_a_change_is_offered_where_it_goes_next_once_the_cursor_leaves_its_line(begin) -> None:
    """The old text is struck through, the rest stands behind the line: nothing in the buffer has moved."""
    scene = begin()
    scene.offers((2, "size"))
    scene.nvim.keys("ggcwwidth<Esc>")
    scene.nvim.until("the change", lambda: scene.nvim.line() == "width = 3")
    assert scene.asked() == []
    scene.nvim.keys("jj")
    scene.appears((2, "size", OLD, "  → width  ● accept 91 %"))
    assert scene.asked() == [("shapes.py", 3)]
    assert scene.nvim.lines()[1:3] == ["print(size)", "other = 4"]
    group = "return vim.api.nvim_get_hl(0, { name = 'LspCalibEditOld' }).strikethrough"
    assert scene.nvim.lua(group) is True
    time.sleep(2 * REST)
    assert len(scene.asked()) == 1, "nothing has changed since"


def test_it_is_asked_for_after_a_save_and_after_a_rest_and_not_while_one_types(begin) -> None:
    scene = begin()
    scene.offers((2, "size"))
    begun = time.monotonic()
    scene.nvim.keys("ggcw")
    for key in "width":
        scene.nvim.keys(key)
    while time.monotonic() < begun + REST / 2:
        time.sleep(0.05)
    assert scene.asked() == []
    scene.appears((2, "size", OLD, "  → width  ● accept 91 %"))  # in insert mode
    scene.nvim.keys("s")
    scene.is_gone()
    before = len(scene.asked())
    scene.nvim.keys("<BS><Esc>:write<CR>")
    scene.appears((2, "size", OLD, "  → width  ● accept 91 %"))
    assert len(scene.asked()) == before + 1


def test_one_key_goes_there_applies_it_and_goes_on(begin) -> None:
    """An edit is one undo step, and the cursor is at the end of the new text where nothing is left."""
    scene = begin()
    scene.offers((2, "size"), (4, "size"))
    scene.nvim.keys("ggcwwidth<Esc>jj")
    scene.appears((2, "size", OLD, "  → width  ● accept 91 %"))
    scene.nvim.keys("<M-j>")
    scene.is_at(2, 7)
    assert scene.settled() == []
    scene.nvim.keys("<M-j>")
    scene.appears((4, "size", OLD, "  → width  ● accept 91 %"))
    scene.is_at(4, 8)
    assert scene.nvim.lines()[1] == "print(width)"
    scene.nvim.keys("<M-j>")
    scene.is_gone()
    scene.is_at(4, 12)
    assert scene.nvim.lines()[3] == "area = width * size"
    assert scene.settled() == [("editApplied", "edit-2"), ("editApplied", "edit-4")]
    scene.nvim.until("the question for a third", lambda: len(scene.asked()) == 3)
    scene.nvim.keys("u")
    scene.nvim.until("the last one undone", lambda: scene.nvim.lines()[3] == "area = size * size")
    assert scene.nvim.lines()[1] == "print(width)"
    scene.nvim.keys("u")
    scene.nvim.until("the one before", lambda: scene.nvim.lines()[1] == "print(size)")
    assert scene.nvim.lines()[0] == "width = 3"


def test_the_other_key_applies_what_is_in_sight_at_once(begin) -> None:
    scene = begin()
    scene.offers((2, "size"), (4, "size"))
    scene.nvim.keys("ggcwwidth<Esc>jj")
    scene.appears((2, "size", OLD, "  → width  ● accept 91 %"))
    scene.nvim.keys("<M-l>")
    scene.appears((4, "size", OLD, "  → width  ● accept 91 %"))
    scene.is_at(4, 8)
    assert scene.nvim.lines()[:2] == ["width = 3", "print(width)"]
    scene.nvim.keys("<C-o>")
    scene.is_at(2, 11)


def test_in_insert_mode_an_edit_is_an_undo_step_of_its_own(begin) -> None:
    scene = begin()
    scene.offers((2, "size"))
    scene.nvim.keys("ggcwwidth<Down>")
    scene.appears((2, "size", OLD, "  → width  ● accept 91 %"))
    scene.nvim.keys("<M-l>")
    scene.nvim.until("the edit", lambda: scene.nvim.line() == "print(width)")
    scene.is_at(2, 12)
    scene.nvim.keys("s")
    scene.nvim.until("the key goes in behind it", lambda: scene.nvim.line() == "print(widths)")
    assert scene.nvim.lua("return vim.api.nvim_get_mode().mode") == "i"
    scene.nvim.keys("<Esc>u")
    scene.nvim.until("the key undone", lambda: scene.nvim.line() == "print(width)")
    scene.nvim.keys("u")
    scene.nvim.until("the edit undone", lambda: scene.nvim.lines()[1] == "print(size)")
    assert scene.nvim.lines()[0] == "width = 3"


def test_an_insertion_says_where_and_a_removal_strikes_through(begin) -> None:
    scene = begin()
    scene.offers((2, ""), new=", unit", after="size", tier="review", confidence=0.5)
    scene.offers((5, ", size"), new="")
    scene.nvim.keys("ggAx<Esc>jj")
    scene.appears((2, ")", PLACE, "  → size, unit)  ▲ review 50 %"))
    scene.nvim.keys("<M-l>")
    scene.appears((5, ", size", OLD, "  ● accept 91 %"))
    assert scene.nvim.lines()[1] == "print(size, unit)"
    scene.nvim.keys("<M-j>")
    scene.nvim.until("the removal", lambda: scene.nvim.lines()[4] == 'print("é🦆", area)')


def test_out_of_sight_it_stands_in_the_status_line_and_the_key_brings_it_into_sight(begin) -> None:
    scene = begin(FAR)
    scene.offers((len(FAR.splitlines()), "size"))
    scene.nvim.keys("ggcwwidth<Esc>j")
    line = len(FAR.splitlines())
    words = f"next edit: `size` to `width`, line {line} ●"
    scene.nvim.until("the status", lambda: scene.status().endswith("  " + words))
    top = "return vim.fn.line('w0')"
    assert scene.nvim.lua(top) == 1, "the text has not moved"
    scene.nvim.keys("<M-l>")
    scene.is_at(line, 8)
    assert scene.nvim.line() == "last = size", "what nobody has seen is not applied"
    assert "next edit" not in scene.status()
    scene.nvim.keys("<M-l>")
    scene.nvim.until("the edit", lambda: scene.nvim.line() == "last = width")


def test_in_another_document_it_is_named_and_gone_to(begin, folder: Path) -> None:
    (folder / ".git").mkdir()  # Neovim 0.10 starts one server for two files in a project alone
    other = folder / "uses.py"
    other.write_text(SOURCE)
    scene = begin()
    scene.nvim.keys(f":edit {other}<CR>:buffer 1<CR>")
    scene.nvim.until("both are there", lambda: scene.wire.methods().count("textDocument/didOpen") == 2)
    scene.offers((2, "size"), path=other)
    scene.nvim.keys("ggcwwidth<Esc>j")
    words = "next edit: `size` to `width`, uses.py line 2 ●"
    scene.nvim.until("the status", lambda: scene.status().endswith(words))
    scene.nvim.keys("<M-j>")
    scene.nvim.until("the other document", lambda: scene.nvim.lua("return vim.fn.expand('%:t')") == "uses.py")
    scene.is_at(2, 7)
    scene.nvim.keys("<M-j>")
    scene.nvim.until("the edit", lambda: scene.nvim.line() == "print(width)")


@pytest.mark.parametrize("keys", ["3GAx", "3Gdd", "3GyyP", ":3s/o/O/<CR>"])
def test_it_goes_with_any_change(begin, keys: str) -> None:
    scene = begin()
    scene.offers((2, "size"))
    scene.nvim.keys("ggcwwidth<Esc>jj")
    scene.appears((2, "size", OLD, "  → width  ● accept 91 %"))
    asked = len(scene.asked())
    scene.nvim.keys(keys)
    scene.is_gone()
    scene.nvim.until("it is asked for anew", lambda: len(scene.asked()) == asked + 1)


@pytest.mark.parametrize("mode", ["", "i"])
def test_it_is_dismissed_by_a_key_and_the_server_is_told(begin, mode: str) -> None:
    scene = begin()
    scene.offers((2, "size"))
    scene.nvim.keys(f"ggcwwidth<Esc>jj{mode}")
    scene.appears((2, "size", OLD, "  → width  ● accept 91 %"))
    scene.nvim.keys("<M-e>")
    scene.is_gone()
    scene.nvim.until("the server knows", lambda: scene.settled() == [("editDismissed", "edit-2")])
    assert scene.nvim.lines()[1] == "print(size)"


def test_it_goes_with_its_server(begin) -> None:
    scene = begin()
    scene.offers((2, "size"))
    scene.nvim.keys("ggcwwidth<Esc>jj")
    scene.appears((2, "size", OLD, "  → width  ● accept 91 %"))
    scene.nvim.keys(":LspCalib restart<CR>")
    scene.is_gone()


def test_without_an_edit_the_keys_do_nothing(begin) -> None:
    """Neovim alone takes them for Escape and a key that moves the cursor."""
    scene = begin()
    scene.nvim.keys("ggl<M-j><M-l><M-e>i<M-j><M-l><M-e>x<Esc>")
    scene.nvim.until("a letter in the same place", lambda: scene.nvim.line() == "sxize = 3")
    scene.nvim.keys(":LspCalib apply<CR>")
    scene.nvim.says("no edit is on offer")


@pytest.mark.parametrize(
    "options", [{"announced": False}, {"setup": {"settings": {"nextEdit": {"enabled": False}}}}]
)
def test_nothing_is_asked_where_it_is_off(begin, options: dict[str, Any]) -> None:
    scene = begin(**options)
    scene.offers((2, "size"))
    scene.nvim.keys("ggcwwidth<Esc>jj:write<CR>")
    time.sleep(1.5 * REST)
    assert scene.asked() == []


def test_places_are_in_the_encoding_that_was_agreed_on(begin) -> None:
    scene = begin()
    scene.offers((5, "size"))
    scene.nvim.keys("ggcwwidth<Esc>jj")
    scene.appears((5, "size", OLD, "  → width  ● accept 91 %"))


def test_it_says_why(begin) -> None:
    scene = begin()
    scene.offers((2, "size"))
    scene.nvim.keys("ggcwwidth<Esc>jj")
    scene.appears((2, "size", OLD, "  → width  ● accept 91 %"))
    scene.nvim.keys(":LspCalib why<CR>")
    scene.nvim.says("next edit `size` to `width`: ● accept 91 %: done once so far")


def test_in_insert_mode_the_key_goes_there_and_typing_goes_on_there(begin) -> None:
    scene = begin()
    scene.offers((2, "size"), (4, "size"))
    scene.nvim.keys("ggcwwidth<Down>")
    scene.appears((2, "size", OLD, "  → width  ● accept 91 %"))
    scene.nvim.keys("<M-j>")
    scene.is_at(2, 7)
    scene.nvim.keys("<M-j>")
    scene.is_at(4, 8)
    scene.nvim.keys("x")
    scene.nvim.until("the key", lambda: scene.nvim.line() == "area = xsize * size")
    scene.is_gone()
    assert scene.nvim.lines()[1] == "print(width)"


def test_quick_changes_by_hand_lead_to_the_next_one(begin) -> None:
    """With the answers of the server itself: `n.` twice is three edits, and not one that spans lines."""
    source = "".join(f"canvas.line(box.size, {at})\nbreak_{at}()\n" for at in range(5))
    scene = begin(source, offering=False)
    scene.nvim.keys("gg/size<CR>cwwidth<Esc>")
    scene.nvim.until("the change", lambda: scene.nvim.line() == "canvas.line(box.width, 0)")
    for key in "n.n.":
        scene.nvim.keys(key)
    scene.nvim.keys("j")
    (line, old, group, behind), *more = scene.nvim.until("the fourth", scene.drawn)
    assert (line, old, group, more) == (7, "size", OLD, [])
    assert re.fullmatch(r"  → width  [●▲] (accept|review) \d\d %", behind)
    scene.nvim.keys("<M-j>")
    scene.is_at(7, 17)
    scene.nvim.keys("<M-j>")
    scene.is_at(9, 17)
    assert scene.nvim.lines()[6::2] == ["canvas.line(box.width, 3)", "canvas.line(box.size, 4)"]
    scene.nvim.keys("<M-e>")
    scene.is_gone()
