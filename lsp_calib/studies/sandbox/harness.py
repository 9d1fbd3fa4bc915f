"""Runs a candidate's code and then its tests, and proves that all tests were run.

This text is run as a program (`python -c`) within the sandbox. Exit status 0 or output do not prove success.
The proof is a token: it is read from one file only after the last test and written to another, by a function
that the candidate cannot name. The builtins and the modules that the tests import are saved before
the candidate's code is loaded, so that the tests can rely on them. Standard library only.

Payload, JSON: `source`, the candidate's code; `tests`, code that raises if it is wrong; `entry_points`, the
names that the tests call. The arguments are the numbers of the open files: payload, token, proof.
"""

from __future__ import annotations

import ast
import builtins
import importlib
import json
import os
import sys
import threading
import types

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_DEEP = 6


def _run_tests() -> None:
    # Local names: changes that the candidate makes to modules do not affect them.
    read, write, end, run, build = os.read, os.write, os._exit, exec, compile
    trace, profile, of_threads = sys.settrace, sys.setprofile, threading.settrace
    table, kind = vars, type
    payload, token, proof = map(int, sys.argv[1:])
    with os.fdopen(payload, encoding="utf-8") as file:
        job = json.load(file)
    # Move them to numbers that a candidate would not try first.
    token_in, proof_out = os.dup2(token, 200), os.dup2(proof, 201)
    os.close(token)
    os.close(proof)
    kept = [(module, dict(table(module))) for module in (builtins, *_modules(job["source"], job["tests"]))]
    tests = build(job["tests"], "tests", "exec")
    candidate = types.ModuleType("candidate")
    sys.modules["candidate"] = candidate
    sys.argv = ["candidate"]
    del sys.modules["__main__"]
    run(build(job["source"], "candidate", "exec"), table(candidate))
    for module, names in kept:
        table(module).update(names)
    trace(None)
    profile(None)
    of_threads(None)
    scope = {
        name: value
        for name, value in table(candidate).items()
        if name in job["entry_points"] or not hasattr(builtins, name)
    }
    for name in job["entry_points"]:
        if kind(scope.get(name)) is types.FunctionType:
            scope[name] = _checked(scope[name], table(candidate))
    scope["__builtins__"] = kept[0][1]
    run(tests, scope)
    write(proof_out, read(token_in, 64))
    end(0)


def _modules(*sources: str) -> list[types.ModuleType]:
    """Standard library modules that are imported anywhere in the sources."""
    names: set[str] = set()
    for source in sources:
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names.add(node.module)
    found = []
    for name in sorted(names):
        if name.partition(".")[0] in sys.stdlib_module_names and name not in ("__main__", "sys", "this"):
            try:
                found.append(importlib.import_module(name))
            except ImportError:
                # The candidate or its tests will fail in the same way.
                continue
    return found


def _checked(function: Any, own: dict[str, Any]) -> Any:
    """Wrap a function to reject results that define their own equality, since they could equal anything."""

    def call(*args: Any, **kwargs: Any) -> Any:
        value = function(*args, **kwargs)
        if _brings_equality(value, own, _DEEP):
            raise AssertionError("the result defines its own equality")
        return value

    return call


def _brings_equality(value: Any, own: dict[str, Any], depth: int) -> bool:
    for klass in type(value).__mro__:
        for name in ("__eq__", "__ne__", "__lt__", "__gt__", "__sub__", "__rsub__", "__bool__"):
            method = klass.__dict__.get(name)
            if getattr(method, "__globals__", None) is own:
                return True
    if depth and isinstance(value, dict):
        value = [*value.keys(), *value.values()]
    if depth and isinstance(value, list | tuple | set | frozenset):
        return any(_brings_equality(item, own, depth - 1) for item in value)
    return False


if __name__ == "__main__":
    _run_tests()
