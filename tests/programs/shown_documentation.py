"""What each language's own tool shows as the documentation of a project's functions, beside what ours finds.

    python tests/programs/shown_documentation.py typescript FOLDER --node "$(.ci/typescript)"
    python tests/programs/shown_documentation.py ruby FOLDER
    python tests/programs/shown_documentation.py cpp FOLDER [--predefined "MACRO= OTHER(x)=x"]
    python tests/programs/shown_documentation.py LANGUAGE --layouts

The tools: the language service of TypeScript, by Node.js; RDoc and YARD, where one of them is enough;
Doxygen. Each file counts alone. Comments for other tools are left out on both sides. The functions are those
that the tool has and that have a body; one that ours does not know counts as a disagreement. The words are
compared, not the marks; of Doxygen, which rewrites its commands, most of the words.

Then a sentence of its own is put in a copy for each function that is offered one, and the tool runs again: it
has to show each at its function and nowhere else, RDoc and YARD both.

--layouts: the rows of `documentation_layouts` instead of a project.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import tempfile
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import attrs
from documentation_layouts import SEEN

from lsp_calib.characters import split_lines
from lsp_calib.languages import language_of
from lsp_calib.summarization.insertion import insertion, may_insert
from lsp_calib.syntax import Function, documentation_sentence, functions
from lsp_calib.syntax.languages.tool_comments import is_for_tool

HERE = Path(__file__).parent / "shown"
SUFFIXES = {"typescript": (".ts", ".tsx", ".js"), "ruby": (".rb",), "cpp": (".h", ".hpp", ".cpp", ".cc")}
# Of the words of either side, those that have to be the same where the tool rewrites them.
MOST_WORDS = 0.8
# Words of comments for tools, apart from the rules that leave these out: sentences with one are shown.
FOR_TOOLS = re.compile(
    r"rubocop|:nodoc:|nocov|steep:|sorbet|@rbs|frozen_string|coding:|eslint|tslint|prettier|biome|istanbul|@ts-"
    r"|webpack|sourceMapping|NOLINT|clang-|cppcheck|LCOV|IWYU|coverity|SPDX|copyright|licen[sc]e|nosonar|#region",
    re.IGNORECASE,
)


@attrs.frozen
class Shown:
    """What a tool shows of a function. row: of its name. texts: of each tool. made: whether a call makes it,
    if it is a function at all."""

    file: str
    row: int
    name: str
    texts: tuple[str, ...]
    made: bool = False


@attrs.frozen
class Pair:
    """A function that a tool shows. kind: "agreed", or how the two differ."""

    shown: Shown
    function: Function | None
    kind: str


Tool = Callable[[Sequence[Path]], Iterator[Shown]]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("language", choices=SUFFIXES)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--layouts", action="store_true")
    parser.add_argument("--node", default="node", help="that finds TypeScript")
    parser.add_argument("--predefined", default="", help="macros, as in the project's own Doxyfile")
    parser.add_argument("--examples", type=int, default=3)
    given = parser.parse_args()
    tool = tool_of(given.language, given.node, given.predefined)
    with tempfile.TemporaryDirectory() as work:
        if given.layouts:
            for source, expected, shown in layouts(given.language, tool, Path(work)):
                if expected != shown:
                    print(f"{source!r}: expected {expected!r}, shown {shown!r}")
            return
        files = [
            path
            for path in sorted(given.folder.resolve().rglob("*"))
            if path.name.endswith(SUFFIXES[given.language]) and not path.name.endswith((".d.ts", ".min.js"))
        ]
        _tell(list(compared(given.language, files, tool)), len(files), given.language, given.examples)
        if given.language == "cpp":
            tool = partial(doxygen_comments, predefined=given.predefined, together=True)
        placed, wrong = inserted(given.language, files, tool, Path(work))
        print(f"\n{placed} sentences put in, {placed - len(wrong)} shown at their functions alone")
        print("\n".join(wrong[: given.examples]))


def _tell(pairs: Sequence[Pair], files: int, language: str, examples: int) -> None:
    kinds = Counter(pair.kind for pair in pairs)
    documented = sum(1 for pair in pairs if any(pair.shown.texts))
    print(f"{files} files, {len(pairs)} functions, {documented} with a text of the tool's")
    print(f"{kinds['agreed']} agreed: {kinds['agreed'] / max(len(pairs), 1):.2%}")
    sentences = [documentation_sentence(pair.function, language) for pair in pairs if pair.function]
    for_tools = [one for one in sentences if one and FOR_TOOLS.search(one)]
    print(
        f"{len([*filter(None, sentences)])} first sentences, {len(for_tools)} with a tool's word: {for_tools}"
    )
    for kind, n in kinds.most_common():
        if kind != "agreed":
            print(f"\n{n} {kind}")
            for pair in [one for one in pairs if one.kind == kind][:examples]:
                ours = pair.function.docstring if pair.function else None
                print(f"  {pair.shown.file}:{pair.shown.row + 1} {pair.shown.name}")
                print(
                    f"    tool {[text[:150] for text in pair.shown.texts]}\n    ours {ours and ours[:150]!r}"
                )


def tool_of(language: str, node: str = "node", predefined: str = "") -> Tool:
    """Shows all functions of files."""
    if language == "cpp":
        return partial(doxygen_comments, predefined=predefined)
    return ruby_comments if language == "ruby" else partial(quick_infos, node=node)


def compared(language: str, files: Sequence[Path], tool: Tool) -> Iterator[Pair]:
    """Each function that the language's tool shows in the files, with ours."""
    found: dict[str, list[Function]] = {}
    for shown in tool(files):
        if shown.file not in found:
            path = Path(shown.file)
            found[shown.file] = functions(_lines(path), _language_in(path, language))
        namesakes = [one for one in found[shown.file] if _own_name(one) == shown.name.replace(" ", "")]
        function = next((one for one in namesakes if one.start <= shown.row < one.end), None)
        if function is not None or not shown.made:
            yield Pair(shown, function, _kind(shown, function, namesakes, language))


def inserted(language: str, files: Sequence[Path], tool: Tool, folder: Path) -> tuple[int, list[str]]:
    """How many sentences were put in, and what is wrong with those that the tool does not show so."""
    names: dict[str, str] = {}  # by sentence: of the function
    copies: list[Path] = []
    wrong: list[str] = []
    for n, file in enumerate(files):
        lines, dialect = _lines(file), _language_in(file, language)
        for at in range(len(functions(lines, dialect)) - 1, -1, -1):
            function = functions(lines, dialect)[at]
            if may_insert(function, dialect):
                sentence = f"Do step{len(names)} of it."
                made = insertion(lines, function, dialect, sentence)
                if made is None:
                    wrong.append(f"{file}:{function.start + 1} {function.name}: offered, and not put in")
                    continue
                lines = made.apply(lines)
                names[sentence] = _own_name(function)
        copies.append(folder / str(n) / file.name)
        copies[-1].parent.mkdir()
        copies[-1].write_text("\n".join(lines), encoding="utf-8")
    seen: dict[str, list[Shown]] = {}
    for shown in tool(copies):
        for sentence in set(re.findall(r"Do step\d+ of it\.", " ".join(shown.texts))):
            seen.setdefault(sentence, []).append(shown)
    for sentence, name in names.items():
        places = seen.get(sentence, [])
        if [one.name.replace(" ", "") for one in places] != [name] or (
            language == "ruby" and not all(sentence in text for text in places[0].texts)
        ):
            shown_at = [(one.file, one.row + 1, one.name, one.texts) for one in places]
            wrong.append(f"{sentence} of {name}: shown at {shown_at}")
    return len(names), wrong


def layouts(language: str, tool: Tool, folder: Path) -> Iterator[tuple[str, str | None, str | None]]:
    """For each layout of the language: its source, what is expected, and what the tool shows (its words)."""
    family = {"typescript": ("typescript", "javascript"), "cpp": ("c", "cpp")}.get(language, (language,))
    suffix = {"typescript": ".ts", "javascript": ".js", "ruby": ".rb", "c": ".c", "cpp": ".cpp"}
    rows = [one for one in SEEN if one[0] in family]
    files = [folder / f"{n}{suffix[one[0]]}" for n, one in enumerate(rows)]
    for file, (_, _, source, _) in zip(files, rows, strict=True):
        file.write_text(source)
    shown: dict[str, Shown] = {one.file: one for one in tool(files) if one.name in ("f", "F", "m")}
    for file, (_, _, source, expected) in zip(files, rows, strict=True):
        found = [words(text, language) for text in shown[str(file)].texts] if str(file) in shown else []
        wanted = words(expected or "", language)
        is_shown = any(one[: len(wanted)] == wanted if wanted else not one for one in found or [[]])
        yield source, expected, expected if is_shown else " / ".join(map(" ".join, found))


def _lines(path: Path) -> tuple[str, ...]:
    return tuple(split_lines(path.read_text(encoding="utf-8", errors="replace")))


def _language_in(path: Path, language: str) -> str:
    return language_of(path) if language == "typescript" else language


def _own_name(function: Function) -> str:
    """The name of a function without what it is a member of."""
    own = re.search(r"operator\b.*|[^.:]+[?!=]?$", function.name)
    return own[0].replace(" ", "") if own else ""


def _kind(shown: Shown, function: Function | None, namesakes: Sequence[Function], language: str) -> str:
    if function is None:
        return "no function of ours" + (", with a text" if any(shown.texts) else "")
    ours = words(function.docstring or "", language)
    theirs = [words(text, language) for text in shown.texts]
    if any(_are_same(ours, one, language) for one in theirs):
        return "agreed"
    if language == "cpp" and ours:
        # Doxygen takes some overloads for one function, and shows the comments of all of them.
        others = [
            word for one in namesakes if one != function for word in words(one.docstring or "", language)
        ]
        if Counter(ours) <= Counter(theirs[0]) <= Counter(ours) + Counter(others):
            return "agreed"
    if not ours:
        return "a text of the tool's alone"
    return "another text" if any(theirs) else "a text of ours alone"


def _are_same(ours: Sequence[str], theirs: Sequence[str], language: str) -> bool:
    if language != "cpp" or not ours or not theirs:
        return list(ours) == list(theirs)
    common = (Counter(ours) & Counter(theirs)).total()
    return common >= MOST_WORDS * max(len(ours), len(theirs))


def words(text: str, language: str) -> list[str]:
    """The words of a text, comments for tools and what a tool writes in its own way left out."""
    name = {"cpp": "c", "ruby": "ruby"}.get(language, "typescript")
    mark = {"ruby": "# "}.get(language, "// ")
    kept: list[str] = []
    for line in text.split("\n"):
        bare = line.strip().removeprefix("=begin rdoc").removeprefix("=begin").removeprefix("=end")
        bare = bare.lstrip("/*#! \t").removesuffix("*/")
        # RDoc takes the mark away from `#: (Integer) -> Integer`.
        typed = language == "ruby" and bare.startswith(": (")
        marked = line.strip() if line.strip()[:1] in ("/", "#", "*") else ("#" if typed else mark) + bare
        if is_for_tool(marked, name):
            continue
        if language == "typescript" and bare.startswith("@"):
            # Types stand in braces, and are shown elsewhere.
            bare = bare.split()[0]
            kept.append(bare)
            break
        kept.append(bare)
    whole = "\n".join(kept)
    if language == "typescript":
        whole = re.sub(r"\{@link(?:code|plain)?\b", "", whole)
    if language == "cpp":
        whole = re.sub(r"[@\\]\w+(?:\[[a-z,]+\])?|<[^<>\n]*>|&\w+;", " ", whole)
    return re.findall(r"[^\W_]+", whole)


def quick_infos(files: Sequence[Path], node: str = "node") -> Iterator[Shown]:
    for one in _run([node, str(HERE / "quick_info.cjs")], files):
        yield Shown(one["file"], one["row"], one["name"], tuple(one["texts"]), one["call"])


def ruby_comments(files: Sequence[Path]) -> Iterator[Shown]:
    """Of each method that RDoc or YARD has, the text of both."""
    texts: dict[tuple[str, int, str], dict[str, str]] = {}
    key: tuple[str, int, str]
    empty = set[tuple[str, int, str]]()
    for tool in ("rdoc", "yard"):
        for one in _run(["ruby", str(HERE / f"{tool}.rb")], files):
            key = one["file"], one["row"], one["name"]
            texts.setdefault(key, {})[tool] = one["text"]
            if one.get("empty"):
                empty.add(key)
    for key, shown in sorted(texts.items()):
        if key not in empty:
            yield Shown(*key, tuple(shown.values()))


def doxygen_comments(files: Sequence[Path], predefined: str, *, together: bool = False) -> Iterator[Shown]:
    """together: whether the definition of a member may stand in another file than its class."""
    for some in [files] if together else [[file] for file in files]:
        with tempfile.TemporaryDirectory() as folder:
            yield from _doxygen(some, Path(folder), predefined)


def _doxygen(files: Sequence[Path], folder: Path, predefined: str) -> Iterator[Shown]:
    copies = {folder / "in" / str(n) / file.name: file for n, file in enumerate(files)}
    for copy, file in copies.items():
        copy.parent.mkdir(parents=True)
        shutil.copy(file, copy)
    yes = "GENERATE_XML EXTRACT_ALL EXTRACT_STATIC EXTRACT_PRIVATE EXTRACT_LOCAL_CLASSES"
    yes += " EXTRACT_ANON_NSPACES INTERNAL_DOCS QUIET"
    no = "GENERATE_HTML GENERATE_LATEX WARNINGS INLINE_INHERITED_MEMB INHERIT_DOCS"
    settings = [f"INPUT={folder}/in", f"OUTPUT_DIRECTORY={folder}", "EXTENSION_MAPPING=h=C++"]
    settings += ["RECURSIVE=YES", "MACRO_EXPANSION=YES", "EXPAND_ONLY_PREDEF=YES", f"PREDEFINED={predefined}"]
    settings += [f"{one}=YES" for one in yes.split()] + [f"{one}=NO" for one in no.split()]
    (folder / "Doxyfile").write_text("\n".join(settings))
    subprocess.run(["doxygen", str(folder / "Doxyfile")], check=True, capture_output=True)
    seen = set[str]()
    for xml in sorted((folder / "xml").glob("*.xml")):
        for member in ElementTree.parse(xml).iter("memberdef"):
            location = member.find("location")
            is_function = member.get("kind") == "function" or "= [" in member.findtext("initializer", "")[:3]
            if not is_function or location is None or member.get("id") in seen:
                continue
            seen.add(member.get("id") or "")
            row = int(location.get("bodystart", location.get("line", "0"))) - 1
            file = copies[Path(location.get("bodyfile", location.get("file", "")))]
            parts = (member.find(one) for one in ("briefdescription", "detaileddescription"))
            text = " ".join(" ".join(part.itertext()) for part in parts if part is not None)
            if location.get("bodystart") or member.get("kind") != "function":
                yield Shown(str(file), row, member.findtext("name", ""), (" ".join(text.split()),))


def _run(command: Sequence[str], files: Sequence[Path]) -> Iterator[dict[str, Any]]:
    listed = "\n".join(map(str, files)) + "\n"
    made = subprocess.run(command, input=listed, capture_output=True, text=True, check=True, encoding="utf-8")
    yield from map(json.loads, made.stdout.split("\n")[:-1])


if __name__ == "__main__":
    main()
