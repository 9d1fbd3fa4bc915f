#!/usr/bin/env bash
# Neovim 0.10.4 and 0.12.4: `:%s` on four lines reaches a language server as one change of all 31 lines from the first of
# them to the last; undoing it arrives as four changes of a word each.
#
# Expected: one change for each edit, as for `:global` and for an undo. The protocol allows both. "Replace all" in VS Code
#   (code-server 4.139.1, on the same document) sends four changes of one line each: its client passes on the editor's own
#   changes (microsoft/vscode-languageserver-node, client/src/common/codeConverter.ts, asChangeTextDocumentParams), which
#   are merged from 1000 on (microsoft/vscode, pieceTreeTextBuffer.ts, _reduceOperations).
# Seen: `contentChanges` has one item. Its range begins at the first match and ends at the last one, and its text repeats
#   the 27 lines between, which are as before. The debounce is not the cause: two nvim_buf_set_lines, 30 lines apart and at
#   once, stay two changes. Neovim tells on_lines of a substitution when it is over, with its first and last line
#   (src/nvim/ex_cmds.c, do_sub), and compares the two ends alone (runtime/lua/vim/lsp/sync.lua, compute_diff).
# Upstream: neovim/neovim issue 14093, open, wants ranges from on_bytes, which is called for each match. We found no issue
#   that names substitutions.
# Why it matters: the range does not say which lines were edited. A server that drops its marks in a changed range loses
#   those of 27 untouched lines. One that counts edits sees one done and four undone.
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cat >"$work/server.py" <<'PYTHON'
"""Answers `initialize`, and appends the ranges and texts of each didChange to a file."""
import json
import sys

while header := sys.stdin.buffer.readline():
    if not header.startswith(b"Content-Length"):
        continue
    sys.stdin.buffer.readline()
    message = json.loads(sys.stdin.buffer.read(int(header.split(b":")[1])))
    if message.get("method") == "textDocument/didChange":
        with open(sys.argv[1], "a") as log:
            for change in message["params"]["contentChanges"]:
                start, end = change["range"]["start"], change["range"]["end"]
                log.write(json.dumps([start["line"], end["line"], change["text"]]) + "\n")
    if "id" in message:
        sync = {"openClose": True, "change": 2}  # incremental
        result = {"capabilities": {"textDocumentSync": sync}} if message["method"] == "initialize" else None
        body = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode()
        sys.stdout.buffer.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        sys.stdout.buffer.flush()
PYTHON

cat >"$work/edits.lua" <<'LUA'
-- 40 lines; "size" stands in lines 2, 12, 22 and 32. Each edit begins an undo step, and is a heading in the file.
local work = arg[1]
local lines = {}
for i = 1, 40 do
  lines[i] = i % 10 == 2 and 'area(size)' or 'line ' .. i
end
vim.fn.writefile(lines, work .. '/shapes.txt')
vim.cmd.edit(work .. '/shapes.txt')
local id = vim.lsp.start({ name = 'log', cmd = { 'python3', work .. '/server.py', work .. '/log' }, root_dir = work })
assert(vim.wait(20000, function() return vim.lsp.buf_is_attached(0, id) and vim.lsp.get_client_by_id(id).initialized end))

local function edit(title, action)
  vim.wait(1000) -- the changes before have been sent
  vim.fn.writefile({ '# ' .. title }, work .. '/log', 'a')
  vim.o.undolevels = vim.o.undolevels
  action()
end

edit('two calls', function()
  vim.api.nvim_buf_set_lines(0, 1, 2, true, { 'area(width)' })
  vim.api.nvim_buf_set_lines(0, 31, 32, true, { 'area(width)' })
end)
edit('undo', function() vim.cmd('silent undo') end)
edit('global', function() vim.cmd('silent g/size/s//width/') end)
edit('undo', function() vim.cmd('silent undo') end)
edit('substitute', function() vim.cmd('silent %s/size/width/') end)
edit('undo', function() vim.cmd('silent undo') end)
vim.wait(1000)
vim.cmd('qa!')
LUA

for pinned in trixie=0.10.4-8+deb13u1 forky=0.12.4-1; do
  release=${pinned%%=*} version=${pinned#*=}
  nvim=$(XDG_CACHE_HOME=$work "$here/.ci/debian-package" "nvim-$release" "$release" "neovim=$version" "neovim-runtime=$version")
  rm -f "$work/log"
  VIMRUNTIME=$nvim/root/usr/share/nvim/runtime "$nvim/run" usr/bin/nvim --headless -n -u NONE -i NONE -l "$work/edits.lua" "$work"
  python3 - "$version" "$work/log" <<'PYTHON'
import json
import sys

seen = {}
with open(sys.argv[2]) as log:
    for line in log:
        if line.startswith("# "):
            title = line[2:].strip()
            title = f"{title} of {last}" if title == "undo" else title
            last, seen[title] = title, []
        else:
            first, end, text = json.loads(line)
            seen[title].append((first + 1, end + 1, text.count("\n") + 1))
print(sys.argv[1])
for title, changes in seen.items():
    print(f"  {title}:", *(f"lines {first} to {end}, {count} of text;" for first, end, count in changes))
each = [(line, line, 1) for line in (2, 12, 22, 32)]
found = {
    "two calls": [each[0], each[-1]],
    "undo of two calls": [each[-1], each[0]],
    "global": each,
    "undo of global": each[::-1],
    "substitute": [(2, 32, 31)],
    "undo of substitute": each[::-1],
}
assert seen == found, "Neovim has changed: mend this finding"
PYTHON
done
echo "as found"
