#!/usr/bin/env bash
# lsprotocol 2025.0.0 with pygls 2.1.1: one value of an enumeration that the library does not know makes the whole
# `initialize` unreadable, although it stands in a list of what the *client* can do, which a server need not use.
#
# Expected: a client of a newer protocol names one more symbol kind, diagnostic tag or resource operation, and a server
#   that has no use for it answers. Enumerations of JSON are open for clients in LSP: each release adds values.
# Seen: the converter raises for symbolKind 27, for diagnostic tag 3 and for the resource operation "copy"; a code action
#   kind of one's own is taken, as the specification calls that enumeration open.
# Why it matters: the editor's first message fails, so that no server starts after an update of the editor.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/python" -m pip --quiet --disable-pip-version-check install lsprotocol==2025.0.0 pygls==2.1.1
"$work/venv/bin/python" - <<'PYTHON'
from lsprotocol import types
from pygls.protocol import default_converter


def is_read(capabilities: dict) -> bool:
    params = {"processId": None, "rootUri": None, "capabilities": capabilities}
    request = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    try:
        default_converter().structure(request, types.InitializeRequest)
    except Exception as error:
        print(f"  {type(error).__name__}: {str(error).splitlines()[0]}")
        return False
    return True


kinds = {"workspace": {"symbol": {"symbolKind": {"valueSet": [1, 27]}}}}
tags = {"textDocument": {"publishDiagnostics": {"tagSupport": {"valueSet": [1, 3]}}}}
operations = {"workspace": {"workspaceEdit": {"resourceOperations": ["create", "copy"]}}}
literal = {"codeActionKind": {"valueSet": ["quickfix", "source.of.my.own"]}}
found = {
    "a known symbol kind": is_read({"workspace": {"symbol": {"symbolKind": {"valueSet": [1, 26]}}}}),
    "symbol kind 27": is_read(kinds),
    "diagnostic tag 3": is_read(tags),
    'resource operation "copy"': is_read(operations),
    "a code action kind of one's own": is_read(
        {"textDocument": {"codeAction": {"codeActionLiteralSupport": literal}}}
    ),
}
for what, read in found.items():
    print(f"{what}: {'read' if read else 'refused'}")
assert list(found.values()) == [True, False, False, False, True], "lsprotocol has changed: mend this finding"
PYTHON
echo "as found"
