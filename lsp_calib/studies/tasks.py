"""The studies' tasks: problems whose right answers are known, and models see the text above alone.

Python functions with tests: HumanEval (Chen et al. 2021), whole and with one line removed (Bavarian et al.
2022), and MBPP, mostly basic Python problems (Austin et al. 2021). One-line bugs in Java: Defects4J (Just et
al. 2014) and ManySStuBs4J (Karampatsis and Sutton 2020).
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import attrs

from lsp_calib.calibration.calibrators.purpose import SUMMARY_CRITERIA, Origin
from lsp_calib.characters import indentation_of, same_line, split_lines
from lsp_calib.completion.context import Cursor
from lsp_calib.corpus.functions import SUMMARY, ExamplePool, function_of, is_usable
from lsp_calib.corpus.places import FEWEST, PAPER, LineItem, Plain, Row, T, Task, exactly, plain
from lsp_calib.corpus.source import Skip, project_names, read_lines_of, source_files
from lsp_calib.errors import DataError
from lsp_calib.exclusion import Exclusion
from lsp_calib.studies.ask import studying, summarising
from lsp_calib.studies.data import CATALOGUE, data_set, read_items
from lsp_calib.studies.sandbox.bwrap import TestedProgram, all_tests_pass, run_tests
from lsp_calib.summarization.examples import NEAR_DUPLICATE, Example, likeness, terms_of
from lsp_calib.summarization.service import first_sentence
from lsp_calib.syntax import functions, prose_lines

PREFIX, NO_DOCSTRING = "prefix", "no-docstring"
"""The conditions of Spiess et al. 2024: the function from its signature down to the line, with its docstring
or without it, and nothing else."""


@attrs.frozen
class Gap:
    """A function whose body is to be written, or of which one line is missing.

    group: of items that are alike. before, behind: the source around what is missing, in whole lines.
    missing: what was there. tests, entry_points: as for `TestedProgram`. indentation: columns of the
    definition, where its body is missing; None: a line is.
    """

    id: str
    group: str
    before: str
    missing: str
    behind: str
    tests: str
    entry_points: tuple[str, ...]
    indentation: int | None = None

    def program(self, completion: str) -> TestedProgram:
        source = f"{self.before}{completion.rstrip()}\n{self.behind}"
        return TestedProgram(source, self.tests, self.entry_points)

    def line_item(self) -> LineItem:
        """The question, with the cursor at the start of an empty line. Below a body nothing is shown; a line
        is asked for as an editor would."""
        above = split_lines(self.before)
        whole = self.indentation is not None
        # The source before ends with a newline; the empty line follows it.
        lines = above if whole else (*above, *split_lines(self.behind))
        return LineItem(
            id=self.id,
            group=self.group,
            stratum="function" if whole else "line-start",
            cursor=Cursor.at(lines, len(above) - 1, 0, "python"),
            target=self.missing if whole else self.missing.removesuffix("\n"),
        )

    def payload(self) -> Plain:
        kind = "infilling" if self.indentation is None else "function"
        return plain(self.line_item(), **{kind: attrs.asdict(self)})


def gap_of(payload: Plain) -> Gap:
    """The item from which `Gap.payload` made this one."""
    values = payload["function"] if "function" in payload else payload["infilling"]
    return Gap(**{**values, "entry_points": tuple(values["entry_points"])})


def _of_humaneval(row: Row) -> Gap:
    """A function, or one with a line removed, which is of the group of its function."""
    id_, called, line = row["task_id"], row["entry_point"], "suffix" in row
    return Gap(
        id_,
        id_.split("/", 1)[1].rpartition("/")[0] if line else id_,
        row["prompt"],
        row["canonical_solution"],
        row.get("suffix", ""),
        f"{row['test']}\ncheck({called})\n",
        (called,),
        None if line else 0,
    )


@attrs.frozen
class Problem:
    """A function described in one sentence.

    task: the sentence. reference: a whole program that solves it, by its authors.
    entry_points: functions of the reference that the tests call. tests: code that raises if they are wrong.
    """

    id: str
    task: str
    reference: str
    entry_points: tuple[str, ...]
    tests: str

    def gap(self, group: str) -> Gap | None:
        """The reference as one function to write, its task inside as its docstring. None if its tests call no
        function, or several.

        Source: Spiess et al. 2024, 3.2.1.
        """
        lines = self.reference.split("\n")
        found = [one for one in functions(lines, "python") if one.name in self.entry_points]
        if len(found) != 1 or found[0].signature_end >= found[0].end:
            return None
        (function,) = found
        body = lines[function.body : function.end]
        indentation = indentation_of(next(line for line in body if line.strip()))
        task = self.task.replace("\\", r"\\").replace('"', "'")
        before = "\n".join([*lines[: function.signature_end], f'{indentation}"""{task}"""', ""])
        missing, behind = "\n".join([*body, ""]), "\n".join(lines[function.end :])
        return Gap(self.id, group, before, missing, behind, self.tests, self.entry_points, 0)


def groups_by_likeness(found: Sequence[Problem]) -> dict[str, str]:
    """The group of each problem by its id: the first one that it is like, over any number of steps.

    Two are alike if their sentences or their references are near-duplicates, as examples of summaries may not
    be either: "the area of a cone" beside "the area of a cylinder" teaches a fit what it is judged on.
    """
    words = [(terms_of(one.task), terms_of(one.reference)) for one in found]
    first = list(range(len(found)))
    for at, mine in enumerate(words):
        for other, theirs in enumerate(words[:at]):
            if any(likeness(*pair) >= NEAR_DUPLICATE for pair in zip(mine, theirs, strict=True)):
                old, new = sorted((first[at], first[other]), reverse=True)
                first = [new if one == old else one for one in first]
    return {one.id: found[at].id for one, at in zip(found, first, strict=True)}


def _problem(row: Row) -> Problem:
    # Some lines end in carriage returns, which do not belong to the code.
    reference, setup = (row[name].replace("\r\n", "\n") for name in ("code", "test_setup_code"))
    tests = row["test_list"]
    named = set(re.findall(r"\w+", " ".join(tests)))
    defined = dict.fromkeys(re.findall(r"^def\s+(\w+)", reference, re.MULTILINE))
    called = tuple(name for name in defined if name in named)
    id_ = f"MBPP/{row['task_id']}"
    return Problem(id_, row["text"], reference, called, "\n".join([setup, *tests, ""]))


_UNPROVED = CATALOGUE["unproved"]
UNPROVED = tuple(dict.fromkeys([*_UNPROVED["without"], *_UNPROVED["with_pass"]]))
"""The lines of HumanEval that its tests prove nothing about: nothing, or `pass`, passes in their place."""

MOST_OF_LINES = 80
"""The fixes of the study have fewer tokens (Spiess et al. 2024, 3.3): words and signs, to any model."""

LEFT_OUT = frozenset(CATALOGUE["bugs_left_out"])
"""The bugs that `Bug.left_out` rules out: records of them count in no score."""

_WORD_OR_SIGN = re.compile(r"\w+|[^\w\s]")


@attrs.frozen
class Bug:
    """A wrong line and its fix.

    before, after: lines of context around it, without line ends; of a line that was moved, they contain it in
    its other place.
    """

    id: str
    group: str
    path: str
    buggy_line: str
    fixed_line: str
    before: tuple[str, ...]
    after: tuple[str, ...]

    @property
    def left_out(self) -> str:
        """Why the bug is not asked for; empty if it is."""
        if same_line(self.buggy_line, self.fixed_line):
            return "is right when the buggy line is copied: they differ in white space alone"
        if len(_WORD_OR_SIGN.findall(self.fixed_line)) >= MOST_OF_LINES:
            return f"has a fix of {MOST_OF_LINES} words and signs or more: the study's have fewer tokens"
        return ""

    def line_item(self) -> LineItem:
        """The place of the fixed line, which is missing; above it a comment shows the buggy one.

        Spiess et al. 2024 show the buggy line in the prompt as well (4.2.1); the words for it are ours.
        """
        indentation = indentation_of(self.buggy_line)
        shown = (f"{indentation}// Buggy line: {self.buggy_line.strip()}", f"{indentation}// Fixed line:")
        above = (*self.before, *shown)
        cursor = Cursor.at((*above, "", *self.after), len(above), 0, "java")
        return LineItem(self.id, self.group, "line-start", cursor, self.fixed_line)


def _of_patch(row: Row) -> Bug:
    project = row["project"]
    (path,) = row["files"]
    lines = [line.removesuffix("\r") for line in row["src_patch"].split("\n")]
    (hunk,) = (at for at, line in enumerate(lines) if line.startswith("@@"))
    body = [line for line in lines[hunk + 1 :] if line[:1] in (" ", "-", "+")]
    # The patch turns the fixed program into the buggy one.
    (fixed,) = (at for at, line in enumerate(body) if line.startswith("-"))
    (buggy,) = (at for at, line in enumerate(body) if line.startswith("+"))
    moved = buggy != fixed + 1
    context = [(at, line[1:]) for at, line in enumerate(body) if at != fixed and (moved or at != buggy)]
    return Bug(
        id=f"{project}-{row['bug_id']}",
        group=project,
        path=path,
        buggy_line=body[buggy][1:],
        fixed_line=body[fixed][1:],
        before=tuple(line for at, line in context if at < fixed),
        after=tuple(line for at, line in context if at > fixed),
    )


def _of_context(row: Row) -> Bug:
    path = row["path"]
    return Bug(
        id=f"SStuB/{row['bug_index']}",
        group=project_of(path),
        path=path,
        buggy_line=row["buggy_line"],
        fixed_line=row["fixed_line"],
        before=_whole_lines(row["context_before"]),
        after=_whole_lines(row["context_after"]),
    )


_JAVA = CATALOGUE["java"]


def project_of(path: str) -> str:
    """The project of a file, by its package: the data do not name it.

    Two parts of the package, three where an organisation has many projects, one where it begins with no
    domain. A project with several names not listed here may be split, and two of one name are one.

    >>> project_of("components/camel-core/src/main/java/org/apache/camel/impl/Route.java")
    'org.apache.camel'
    >>> project_of("backends/gdx-backend-lwjgl/src/com/badlogic/gdx/Gdx.java")
    'com.badlogic'
    """
    folders, roots, domains = path.split("/")[:-1], _JAVA["roots"], _JAVA["domains"]
    starts = [at for at in range(1, len(folders)) if folders[at - 1] in roots and folders[at] not in roots]
    # Modules and their folders have names of roots, too: a domain is the surer sign.
    known = [at for at in starts if folders[at] in domains]
    package = folders[(known or starts or [0])[0 if known else -1] :]
    if not package:
        return path
    size = 1 if package[0] not in domains else 3 if ".".join(package[:2]) in _JAVA["with_many"] else 2
    name = ".".join(package[:size])
    return str(_JAVA["also"].get(name, name))


def _whole_lines(source: str) -> tuple[str, ...]:
    lines = split_lines(source)
    return lines if lines[-1] else lines[:-1]


_READERS: Mapping[str, Callable[[Row], Any]] = {
    "humaneval": _of_humaneval,
    "humaneval-infilling": _of_humaneval,
    "mbpp": _problem,
    "defects4j": _of_patch,
    "manysstubs4j": _of_context,
}


def items_of(name: str, folder: Path | None = None) -> list[Any]:
    """The items of a data set: `Gap` of HumanEval and its infilling, `Problem` of MBPP, `Bug` of the others.

    folder: the evaluation data; None: LSP_CALIB_DATA, as everywhere here.
    Raises DataError if the data are missing or have another checksum.
    """
    return list(read_items(name, _READERS[name], folder))


def data_origin(name: str, count: int) -> Origin:
    """Where `count` items of a known data set come from."""
    return Origin(name, data_set(name).sha256[:12], count)


SYNTHESIS, REPAIR = "synthesis", "repair"

_COUNTS = {
    "longest": MOST_OF_LINES,
    "with_assertions": len(_UNPROVED["functions_with_assertions"]),
    "unproved": len(UNPROVED),
    "named": ", ".join(UNPROVED),
    **{name: len(_UNPROVED[name]) for name in ("without", "with_pass")},
    **{name: _UNPROVED[name] for name in ("assertions", "lines_asked", "made_by")},
}
NOTES: Mapping[str, str] = {name: note.format(**_COUNTS) for name, note in CATALOGUE["notes"].items()}
"""What is left out of a task, and what its verdicts cannot tell, by the name in its version."""

# In lines, as the study has it.
_SHORTEST_BODY = 3
Say = Callable[[str], None]


def infill_task(folder: Path | None, samples: int | None, seed: int, *, tests: bool = True) -> Task:
    """Lines removed from the functions of HumanEval, to be filled in; each function is a group.

    samples: number of items, drawn at random; None: all, here and below. tests: also judge by the functions'
    tests (in the sandbox).
    """
    found = some_of(items_of("humaneval-infilling", folder), samples, seed)
    return Task(
        "infill",
        tuple((one.id, one.payload()) for one in found),
        criteria=("exact", "tests") if tests else ("exact",),
        sources=(data_origin("humaneval-infilling", len(found)),),
        judge=judge,
        version="humaneval-infill@1",
    )


def synthesis_task(
    name: str, folder: Path | None, samples: int | None, seed: int, say: Say = lambda _: None
) -> Task:
    """Functions to be written from their signature and docstring, judged by tests; each is a group, of MBPP
    those that are alike (`groups_by_likeness`).

    name: "humaneval" or "mbpp". say: told how many problems of MBPP are left out: the description is put
    inside the function as its docstring, and the reference so changed has to pass its own tests.
    Raises SandboxError if nothing isolates here.
    """
    published = items_of(name, folder)
    if name == "humaneval":
        found = some_of(published, samples, seed)
    else:
        groups = groups_by_likeness(published)
        usable = [gap for one in published if (gap := one.gap(groups[one.id])) is not None]
        drawn = some_of(usable, samples, seed)
        verdicts = all_tests_pass([one.program(one.missing) for one in drawn])
        found = [one for one, passed in zip(drawn, verdicts, strict=True) if passed]
        say(
            f"MBPP: {len(published) - len(usable)} of {len(published)} problems are left out, whose tests "
            f"call no function or several; {len(drawn) - len(found)} of {len(drawn)} that were drawn, whose "
            "reference does not pass its own tests (the study: about 75)."
        )
    return _task(SYNTHESIS, name, [(one.id, one.payload()) for one in found], "python", "tests")


def repair_task(
    name: str, folder: Path | None, samples: int | None, seed: int, say: Say = lambda _: None
) -> Task:
    """One-line bugs of Java to be fixed, the buggy line shown in a comment; each project is a group.

    name: "defects4j" or "manysstubs4j". say: told which of them are left out (`Bug.left_out`). Right is what
    is exactly the fix.
    """
    bugs = some_of(items_of(name, folder), samples, seed)
    for why in sorted({one.left_out for one in bugs} - {""}):
        which = [one.id for one in bugs if one.left_out == why]
        say(f"{len(which)} of {len(bugs)} bugs are left out, each of which {why}: {', '.join(which)}.")
    items = [(one.id, plain(one.line_item(), buggy=one.buggy_line)) for one in bugs if not one.left_out]
    return _task(REPAIR, name, items, "java", "exact")


def _task(task: str, name: str, items: Sequence[tuple[str, Plain]], language: str, criterion: str) -> Task:
    return Task(
        task,
        tuple(items),
        language,
        (criterion,),
        (data_origin(name, len(items)),),
        asks=studying,
        judge=judge,
        doing="Writing functions" if task == SYNTHESIS else "Repairing lines",
        version=f"spiess-{'sstubs' if name == 'manysstubs4j' else name}@1",
        profile=PAPER,
    )


def prefix_task(
    paths: Sequence[Path],
    samples: int,
    seed: int,
    *,
    docstrings: bool = True,
    exclude: Sequence[str] = (),
    skip: Skip | None = None,
) -> Task:
    """About `samples` lines of documented Python functions below `paths`, equally many from each project: one
    line of each function, which is seen from its signature down to the line.

    docstrings: False leaves out the functions' docstrings; the lines are the same ones. exclude: patterns of
    files that no model may see. A function has a docstring and a body of more than three lines below it, and
    is no copy of another; the line is neither blank nor a comment. skip: files of which no lines are drawn.
    Raises DataError if there are fewer than 20.
    """
    named = project_names(paths)
    exclusion, seen = Exclusion(tuple(exclude)), set[str]()
    items: list[tuple[str, Plain]] = []
    for root, group in named:
        found: list[LineItem] = []
        for path in source_files(root, skip=skip):
            if not exclusion.reason(str(path)):
                name = path.relative_to(root).as_posix() if path != root else path.name
                found += _documented_lines(path, f"{group}/{name}", group, seed, seen, docstrings=docstrings)
        items += [(one.id, plain(one)) for one in some_of(found, -(-samples // len(named)), seed)]
    if len(items) < FEWEST:
        raise DataError(
            f"Only {len(items)} documented functions with a body of more than three lines were found; at "
            f"least {FEWEST} are needed. Name more source."
        )
    return Task(
        "line",
        tuple(items),
        asks=studying,
        version=f"spiess-line{'' if docstrings else '-no-docstring'}@1",
        profile=PAPER,
    )


def _documented_lines(
    path: Path, name: str, group: str, seed: int, seen: set[str], *, docstrings: bool
) -> Iterator[LineItem]:
    """A line of each function of a file. seen: the code of functions that were there before."""
    lines = read_lines_of(path, "python")
    # Also the lines that were drawn in a function around this one, or in it.
    taken = set(prose_lines(lines, "python")) if lines else set()
    for function in functions(lines, "python"):
        own = "\n".join(lines[function.body : function.end])
        if function.documented is None or function.end - function.body <= _SHORTEST_BODY or own in seen:
            continue
        seen.add(own)
        body = (at for at in range(function.body, function.end) if at not in taken)
        places = [at for at in body if lines[at].strip() and not lines[at].lstrip().startswith("#")]
        if not places:
            continue
        at = random.Random(f"{seed}:{name}:{function.start}".encode("utf-8", "surrogatepass")).choice(places)
        taken.add(at)
        left_out = range(0) if docstrings else range(*function.documented)
        shown = [lines[n] for n in range(function.start, at) if n not in left_out]
        yield LineItem(
            id=f"{name}:{at + 1}:1",
            group=group,
            stratum="line-start",
            cursor=Cursor.at([*shown, ""], len(shown), 0, "python"),
            target=lines[at],
            condition=PREFIX if docstrings else NO_DOCSTRING,
        )


def documented_functions(language: str, folder: Path | None = None) -> Iterator[Plain]:
    """The functions of one language, "python" or "java", with what programmers wrote of them: payloads of
    `summary_task` without examples. A Python function's code includes its docstring.

    Source: CodeXGLUE, from Husain et al. 2019.
    Raises DataError if the data are missing or have another checksum, SettingsError for another language.
    """
    seen: Counter[str] = Counter()

    def make(row: Row) -> Plain:
        name = f"{row['repo']}/{row['path']}:{row['func_name']}"
        seen[name] += 1
        return {
            # Methods in Java may share a name (overloading).
            "item": name if seen[name] == 1 else f"{name}#{seen[name]}",
            "group": row["repo"],
            "path": row["path"],
            "language": language,
            "code": row["code"].replace("\r\n", "\n"),
            "reference": reference_of(row["docstring"]),
        }

    return read_items(f"code-to-text-{language}", make, folder)


# Where the first paragraph ends: a blank line or HTML's like, block tags, fields, sections, examples.
_END = re.compile(
    r"\n\s*\n|<(?:p|br|ul|ol|pre|h\d)\s*/?>|\n\s*@\w+|\n\s*:\w+[^:\n]*:|\n\s*-{3,}|\n\s*>>>"
    r"|\n\s*(?:args|arguments|parameters|params|returns?|raises|yields|examples?|notes?)\s*:?\s*\n",
    re.IGNORECASE,
)
_INLINE_TAG = re.compile(r"\{@\w+\s+([^{}]*)\}")
_HTML = re.compile(r"</?[a-zA-Z][^<>]*>")
_ROLE = re.compile(r":\w+:`([^`]*)`")


def reference_of(documentation: str) -> str:
    """The first sentence of the first paragraph, without markup; empty if there is none.

    It is the summary line of the conventions (PEP 257, Javadoc), and what the rated pairs were made of.

    >>> reference_of("Returns the {@link Foo}. It is new.\\n\\n@return a foo")
    'Returns the Foo.'
    """
    text = documentation.strip()
    end = _END.search(text)
    text = text[: end.start()] if end else text
    if text.startswith(("@", ":param", ":return", ">>>")):
        return ""
    text = _HTML.sub(" ", _ROLE.sub(r"\1", _INLINE_TAG.sub(r"\1", text)))
    return first_sentence(text, whole=True)


def _example_of(payload: Plain) -> Example:
    function = function_of(payload["code"], payload["language"])
    assert function is not None, "such functions are left out"
    return Example(payload["path"], function.name, function.code, payload["reference"])


def some_of(found: Sequence[T], samples: int | None, seed: int) -> list[T]:
    """So many of the items, drawn at random, in their order; None: all."""
    if samples is None or samples >= len(found):
        return list(found)
    return [found[at] for at in sorted(random.Random(seed).sample(range(len(found)), samples))]


def summary_task(
    folder: Path | None, language: str, samples: int | None, seed: int, *, augment: bool = False
) -> Task:
    """Functions of code-to-text in one language; each repository is a group.

    folder: the evaluation data; None: LSP_CALIB_DATA. samples: number of functions, drawn at random; None:
    all. Functions whose documentation has no first sentence of three words, and those that cannot be parsed
    alone, are left out before anything is drawn. The examples of each are those of all functions of other
    repositories that resemble it most, near-duplicates left out. augment: show facts about the code beside
    it. Raises DataError if the data are missing.
    """
    found = [(one["item"], one) for one in documented_functions(language, folder) if is_usable(one)]
    examples = [_example_of(payload) for _, payload in found]
    groups = [payload["group"] for _, payload in found]
    pool = ExamplePool(examples)

    def shown(payload: Plain) -> Plain:
        return pool.shown(_example_of(payload).code, lambda at: groups[at] != payload["group"])

    found = some_of(found, samples, seed)
    return Task(
        SUMMARY,
        tuple((id_, {**payload, **shown(payload)}) for id_, payload in found),
        language=language,
        criteria=SUMMARY_CRITERIA,
        sources=(data_origin(f"code-to-text-{language}", len(found)),),
        doing="Summarising functions",
        version=f"virk-summary-{'asap-' if augment else ''}{language}@1",
        profile=PAPER,
        asks=partial(summarising, augment=augment, folder=folder),
    )


def judge(name: str, item: LineItem, payload: Plain, text: str) -> bool:
    """The `corpus.places.Judge` of items with tests: "exact" as `exactly`, "tests" if the item's tests pass.

    Raises SandboxError where tests cannot be run safely.
    """
    if not text or name == "exact":
        return exactly(name, item, payload, text)
    assert name == "tests", f"there is no criterion {name}"
    return run_tests(gap_of(payload).program(text)).proved
