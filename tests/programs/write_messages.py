"""The texts of all error messages, read from the source.

`python tests/programs/write_messages.py` writes them to tests/golden/messages.txt, where a change of any is
seen. The tests hold them to the rules of style.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path

from lsp_calib import errors

ROOT = Path(__file__).resolve().parents[2]
MESSAGES = ROOT / "tests" / "golden" / "messages.txt"
_ERRORS = {name for name, one in vars(errors).items() if inspect.isclass(one) and issubclass(one, Exception)}


def messages() -> dict[str, list[str]]:
    """The messages by module. An expression in one is shown in braces, as it is written there."""
    found = {
        str(path.relative_to(ROOT)): list(_messages_in(ast.parse(path.read_text("utf-8"))))
        for path in sorted((ROOT / "lsp_calib").rglob("*.py"))
    }
    return {path: texts for path, texts in found.items() if texts}


def as_text(found: dict[str, list[str]]) -> str:
    return "\n".join(
        f"{path}\n" + "".join(f"    {text}\n" for text in texts) for path, texts in found.items()
    )


def _messages_in(tree: ast.Module) -> Iterator[str]:
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and node.args]
    for call in sorted(calls, key=lambda call: call.lineno):
        name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        text = _text(call.args[0]) if name in _ERRORS else ""
        if " " in text:
            yield text


def _text(node: ast.expr) -> str:
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(part) for part in node.values)
    if isinstance(node, ast.FormattedValue):
        return f"{{{ast.unparse(node.value)}}}"
    if isinstance(node, ast.BinOp):
        return _text(node.left) + _text(node.right)
    return ""


if __name__ == "__main__":
    MESSAGES.write_text(as_text(messages()), encoding="utf-8")
