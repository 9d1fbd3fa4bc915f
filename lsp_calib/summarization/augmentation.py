"""Facts about a function's code in words, for its prompt. Pure.

Where it stands, its names with types and scopes, and which values come from which: the three kinds of facts
of Ahmed et al. 2024 (ASAP). Names and data flow are read from Python and Java.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lsp_calib.summarization.examples import Example
from lsp_calib.syntax.code_facts import CodeFacts, Name, code_facts

# Of the facts on one function, in characters; of each kind, how many.
_MOST, _MOST_OF_KIND = 600, 8


def augmentation(code: str, language: str, *, repository: str = "", path: str = "") -> str:
    """The facts on a function, a line for each kind; "" if nothing is known.

    code: without documentation. repository: the name of its project. path: of its file below it, with `/`.
    """
    facts = code_facts(code, language)
    lines = [
        _line("Repository", [repository]),
        _line("File", [path]),
        *_names(facts),
        _line(
            "Data flow",
            [
                f"{flow.name} {'comes from' if flow.direct else 'is computed from'} {', '.join(flow.sources)}"
                for flow in facts.flows
            ],
            "; ",
        ),
    ]
    text = "\n".join(line for line in lines if line)
    if len(text) > _MOST:
        text = text[:_MOST].rpartition("\n")[0] or text[:_MOST]
    return text


def facts_of(
    code: str, examples: Sequence[Example], language: str, *, repository: str = "", path: str = ""
) -> list[str]:
    """The facts for a prompt: those of each example, then those of the function.

    code: what the prompt shows of it. repository, path: as for `augmentation`; examples have their own paths.
    """
    shown = [*((one.code, one.path) for one in examples), (code, path)]
    return [augmentation(text, language, repository=repository, path=at) for text, at in shown]


def _names(facts: CodeFacts) -> Iterable[str]:
    yield _line("Parameters", map(_typed, facts.parameters))
    yield _line("Local variables", map(_typed, facts.variables))
    yield _line("Fields", facts.fields)
    yield _line("Calls", facts.calls)
    yield _line("Returns", [facts.returns])


def _typed(name: Name) -> str:
    return f"{name.name} ({name.type})" if name.type else name.name


def _line(kind: str, facts: Iterable[str], between: str = ", ") -> str:
    told = [fact for fact in facts if fact][:_MOST_OF_KIND]
    return f"{kind}: {between.join(told)}" if told else ""
