"""A model file is looked at before native code sees it; what is wrong with it is named, with the file."""

import contextlib
import struct
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp_calib.errors import ModelFileError
from lsp_calib.inference.models import gguf, sidecar
from lsp_calib.inference.models.gguf import Metadata, read_metadata

U32, STRING, ARRAY, U64 = 4, 8, 9, 10


def header(magic: bytes = b"GGUF", version: int = 3, pairs: int = 0) -> bytes:
    return struct.pack("<4sIQQ", magic, version, 0, pairs)


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value.encode())) + value.encode()


def pair(name: str, value: int | str | list[str]) -> bytes:
    """A key with its value, typed as model files have it."""
    if isinstance(value, int):
        return text(name) + struct.pack("<II", U32, value)
    if isinstance(value, str):
        return text(name) + struct.pack("<I", STRING) + text(value)
    return text(name) + struct.pack("<IIQ", ARRAY, STRING, len(value)) + b"".join(map(text, value))


def file_of(pairs: list[bytes]) -> bytes:
    """Header and pairs."""
    return header(pairs=len(pairs)) + b"".join(pairs)


def written(folder: Path, content: bytes) -> Path:
    path = folder / "some-model.gguf"
    path.write_bytes(content)
    return path


MODEL = [
    pair("general.architecture", "llama"),
    pair("general.name", "A Model"),
    pair("general.file_type", 15),
    pair("general.license", "mit"),
    pair("llama.context_length", 4096),
    pair("llama.block_count", 2),
    pair("llama.embedding_length", 64),
    pair("llama.attention.head_count", 8),
    pair("llama.attention.head_count_kv", 4),
    pair("tokenizer.ggml.tokens", ["a", "<s>", "</s>", "[PRE]", "[SUF]", "[MID]", "long " * 300]),
    pair("tokenizer.ggml.bos_token_id", 1),
    pair("tokenizer.ggml.eos_token_id", 2),
    pair("tokenizer.chat_template", "{{ messages }}"),
]


class TestMetadata:
    def test_what_the_file_says_of_itself_is_read(self, tmp_path: Path) -> None:
        path = written(tmp_path, file_of(MODEL))
        assert read_metadata(path) == Metadata(
            architecture="llama",
            name="A Model",
            quantisation="Q4_K_M",
            licence="mit",
            context_length=4096,
            chat_template="{{ messages }}",
            vocabulary=7,
            kv_bytes=2 * 2 * 4 * (8 + 8),
        )

    @pytest.mark.parametrize(
        "keys",
        [
            ("fim_pre_token_id", "fim_suf_token_id", "fim_mid_token_id"),
            ("prefix_token_id", "suffix_token_id", "middle_token_id"),
        ],
    )
    def test_fill_in_the_middle_tokens_are_found_by_their_numbers(
        self, tmp_path: Path, keys: tuple[str, ...]
    ) -> None:
        named = [pair(f"tokenizer.ggml.{key}", 3 + number) for number, key in enumerate(keys)]
        assert read_metadata(written(tmp_path, file_of(named + MODEL))).fim == ("[PRE]", "[SUF]", "[MID]")

    @pytest.mark.parametrize(
        "texts",
        [
            ("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"),
            ("<fim_prefix>", "<fim_suffix>", "<fim_middle>"),
            ("<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"),
            ("▁<PRE>", "▁<SUF>", "▁<MID>"),
        ],
    )
    def test_fill_in_the_middle_tokens_are_found_by_their_texts(
        self, tmp_path: Path, texts: tuple[str, ...]
    ) -> None:
        tokens = pair("tokenizer.ggml.tokens", ["x", *reversed(texts), "y"])
        assert read_metadata(written(tmp_path, file_of([tokens]))).fim == texts
        near = pair("tokenizer.ggml.tokens", [f"{text} " for text in texts])
        assert read_metadata(written(tmp_path, file_of([near]))).fim == (), "part of a token is none"

    @pytest.mark.model
    def test_of_the_real_model(self, model_path: Path) -> None:
        metadata = read_metadata(model_path)
        assert (metadata.architecture, metadata.quantisation, metadata.fim) == ("llama", "Q4_1", ())
        assert "<|im_start|>" in metadata.chat_template
        assert metadata.vocabulary == 49152


class TestMemory:
    @pytest.mark.usefixtures("home")
    def test_an_unchanged_file_is_not_read_again(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = written(tmp_path, file_of([*MODEL, pair("tokenizer.ggml.fim_pre_token_id", 3)]))
        first = gguf.inspect(path)
        with monkeypatch.context() as patch:
            patch.setattr(gguf, "read_metadata", lambda _: pytest.fail("the file was read again"))
            assert gguf.inspect(path) == first
            gguf.check_header(path)
        path.write_bytes(file_of([]))
        assert gguf.inspect(path) == Metadata()

    @pytest.mark.usefixtures("home")
    @pytest.mark.parametrize("damage", [5, {}, {"vocabulary": "many"}, {"fim": 5}, {"colour": "red"}])
    def test_what_is_remembered_wrongly_is_found_out_again(self, tmp_path: Path, damage: object) -> None:
        path = written(tmp_path, file_of(MODEL))
        sidecar.keep(path, "header", damage)
        assert gguf.inspect(path).architecture == ("" if damage == {} else "llama")


HUGE = struct.pack("<Q", 2**30)
FAULTS = {
    "it has 0 bytes": b"",
    "it has 23 bytes": header()[:23],
    "begins with b'.PNG'": header(magic=b".PNG"),
    "not a GGUF file": b"<!DOCTYPE html><title>Not found</title>",
    "GGUF version 1": header(version=1),
    "GGUF version 4": header(version=4),
    "in little-endian order": header(version=0x03000000),
    "claims 10001 values": header(pairs=10_001),
    "a key of 70000 bytes": header(pairs=1) + struct.pack("<Q", 70_000) + bytes(80_000),
    "describes more": header(pairs=1) + text("k") + struct.pack("<I", STRING) + HUGE,
    "claims 4000001 texts": header(pairs=1) + text("k") + struct.pack("<IIQ", ARRAY, STRING, 4_000_001),
    "is truncated": header(pairs=1) + text("k") + struct.pack("<II", ARRAY, U64) + HUGE,
    "elements of type 9": header(pairs=1) + text("k") + struct.pack("<IIQ", ARRAY, ARRAY, 1) + bytes(99),
    "has type 13": header(pairs=1) + text("k") + struct.pack("<I", 13) + bytes(99),
    "elements of type 77": header(pairs=1) + text("k") + struct.pack("<IIQ", ARRAY, 77, 1) + bytes(99),
    "claims 1048577 texts": header(pairs=1)
    + text("tokenizer.ggml.tokens")
    + struct.pack("<IIQ", ARRAY, STRING, (1 << 20) + 1),
    "its header describes more": file_of(MODEL)[:-40],
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_is_wrong_is_named_with_the_file(tmp_path: Path, fault: str) -> None:
    path = written(tmp_path, FAULTS[fault])
    with pytest.raises(ModelFileError) as caught:
        read_metadata(path)
    assert fault in str(caught.value)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("content", [b"short", header(magic=b"ZZZZ"), header(pairs=10_001)])
def test_a_damaged_file_comes_with_the_commands_that_replace_it(
    tmp_path: Path, home: Path, content: bytes
) -> None:
    (home / "models").mkdir(mode=0o700)
    path = written(home / "models", content)
    with pytest.raises(ModelFileError) as caught:
        read_metadata(path)
    assert "lsp-calib models remove some-model.gguf" in str(caught.value)
    assert "lsp-calib models pull" in str(caught.value)
    # A file of the user's own is not for `models remove`, which refuses it.
    with pytest.raises(ModelFileError, match="a file of your own") as caught:
        read_metadata(written(tmp_path, content))
    assert "models remove" not in str(caught.value)


def test_a_missing_file_and_a_folder_are_named(tmp_path: Path) -> None:
    for path in (tmp_path / "nothing.gguf", tmp_path):
        with pytest.raises(ModelFileError, match="cannot be read") as caught:
            read_metadata(path)
        assert str(path) in str(caught.value)


TOKENS = text("tokenizer.ggml.tokens") + struct.pack("<I", ARRAY)


def test_a_file_that_is_cut_while_it_is_read_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by a download that begins anew."""
    path = written(tmp_path, file_of(MODEL))
    moved = gguf._Reading._move

    def cut(reading: gguf._Reading, count: int) -> None:
        moved(reading, count)
        with path.open("rb+") as file:
            file.truncate(40)

    monkeypatch.setattr(gguf._Reading, "_move", cut)
    with pytest.raises(ModelFileError, match=f"{path}.*was cut while it was read"):
        read_metadata(path)


@pytest.mark.parametrize(
    ("claim", "fault", "most"),
    [
        (text("k") + struct.pack("<IIQ", ARRAY, U64, 1 << 27), "longer than 128 MB", 2),
        (text("k") + struct.pack("<IIQ", ARRAY, U64, 1 << 23), "", 2),
        (text("k") + struct.pack("<IQ", STRING, 100 << 20), "", 2),
        (text("k") + struct.pack("<IIQQ", ARRAY, STRING, 1, 100 << 20), "", 2),
        (TOKENS + struct.pack("<IQQ", STRING, 1, 100 << 20), "more than 32 MB", 2),
        (TOKENS + struct.pack("<IQQ", STRING, 2, 20 << 20), "", 80),
    ],
    ids=["numbers beyond", "numbers", "text", "texts", "tokens", "long tokens"],
)
def test_large_claims_cost_little_memory(tmp_path: Path, claim: bytes, fault: str, most: int) -> None:
    """The file is sparse: it could hold what its header claims. most: MB."""
    path = written(tmp_path, header(pairs=1) + claim)
    with path.open("rb+") as file:
        file.truncate(2 << 30)
    tracemalloc.start()
    try:
        if fault:
            with pytest.raises(ModelFileError, match=fault):
                read_metadata(path)
        else:
            assert read_metadata(path).architecture == ""
        assert tracemalloc.get_traced_memory()[1] < most << 20
    finally:
        tracemalloc.stop()


@given(st.binary(max_size=200))
def test_any_bytes_are_metadata_or_a_model_file_error(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    path = written(tmp_path_factory.getbasetemp(), content)
    try:
        read_metadata(path)
    except ModelFileError:
        return
    assert content.startswith(b"GGUF")


WHOLE = file_of(MODEL)


@given(
    st.lists(st.tuples(st.integers(0, len(WHOLE) - 1), st.integers(0, 255)), max_size=6), st.integers(0, 600)
)
def test_any_damage_to_a_file_is_metadata_or_a_model_file_error(
    tmp_path_factory: pytest.TempPathFactory, flips: list[tuple[int, int]], cut: int
) -> None:
    content = bytearray(WHOLE)
    for place, value in flips:
        content[place] = value
    path = written(tmp_path_factory.getbasetemp(), bytes(content[: len(content) - cut]))
    with contextlib.suppress(ModelFileError):
        read_metadata(path)


@pytest.mark.parametrize(("size", "fault"), [(99, "truncated: 99 of 100"), (101, "longer than it should be")])
def test_a_file_of_another_size_is_named(tmp_path: Path, size: int, fault: str) -> None:
    path = written(tmp_path, bytes(size))
    with pytest.raises(ModelFileError, match=fault) as caught:
        gguf.check_size(path, 100)
    assert str(path) in str(caught.value)
