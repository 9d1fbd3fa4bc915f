"""The sentence encoder is pulled, checked and removed as two files, and completes nothing."""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path

import attrs
import pytest
from command_scene import document, refused, said
from encoder_scene import CARD, FILES, install, needs_encoder
from test_download import Publish, bring_from, index_fixture, publish_fixture, silent  # noqa: F401 - fixtures

from lsp_calib.errors import DownloadError, ModelFileError, NoModelError, SettingsError
from lsp_calib.inference.models import cards, inventory
from lsp_calib.inference.models.cards import (
    EncoderCard,
    Source,
    choose,
    load_cards,
    load_encoders,
    locate_encoder,
)
from lsp_calib.inference.models.download import pull_encoder


def spoil(home: Path) -> None:
    """Two files with the right sizes and wrong bytes."""
    (home / "models").mkdir(mode=0o700, exist_ok=True)
    for file in CARD.files:
        with file.path.open("wb") as out:
            out.truncate(file.size)


@pytest.mark.parametrize("card", load_encoders().values(), ids=lambda card: card.name)
def test_every_card_has_what_a_pull_needs(card: EncoderCard) -> None:
    assert card.name not in load_cards()
    assert card.model.path.suffix == ".onnx"
    assert card.model.path.parent == card.tokenizer.path.parent
    assert min(card.dimensions, card.most_tokens) > 0
    for file in card.files:
        assert len(file.sha256) == 64
        assert file.size > 0
        assert all(one.parts or one.repo for one in file.sources)
        assert any(one.kind == "package-index" for one in file.sources)


def test_it_is_never_a_language_model(home: Path) -> None:
    spoil(home)
    with pytest.raises(NoModelError, match="No model is installed"):
        choose(None)
    with pytest.raises(SettingsError, match="no model called"):
        choose(CARD.name)
    with pytest.raises(ModelFileError):
        choose(str(CARD.model.path))
    assert all(entry.card.name != CARD.name for entry in inventory.inventory())


def test_what_is_missing_is_said_with_the_command(home: Path) -> None:
    with pytest.raises(NoModelError, match=f"lsp-calib models pull {CARD.name}"):
        locate_encoder()
    spoil(home)
    CARD.tokenizer.path.unlink()
    with pytest.raises(NoModelError, match="models pull"):
        locate_encoder()
    assert CARD.tokenizer.file in CARD.fault
    with pytest.raises(SettingsError, match="minilm-l6-v2"):
        locate_encoder("bert")


def test_other_bytes_are_refused(home: Path) -> None:
    spoil(home)
    assert CARD.installed
    assert CARD.fault == ""
    with pytest.raises(ModelFileError, match="checksum"):
        locate_encoder()
    refused(ModelFileError, "models", "verify", CARD.name)
    CARD.model.path.write_bytes(b"short")
    assert "5 of 22928619 bytes" in CARD.fault
    assert "damaged" in said("models", "list").splitlines()[-1]


def test_both_files_are_removed_with_the_remains_of_a_pull(home: Path) -> None:
    refused(SettingsError, "models", "remove", CARD.name)
    spoil(home)
    (home / "models" / f".pull-{CARD.model.file}.part").write_bytes(b"x")
    assert document("models", "remove", CARD.name) == {"removed": str(CARD.model.path)}
    assert not [path for path in (home / "models").iterdir() if CARD.model.path.stem in path.name]


@pytest.fixture
def made_up(home: Path, publish: Publish, monkeypatch: pytest.MonkeyPatch) -> EncoderCard:
    """A card whose files are in a folder that passes for the package index."""
    assert home.is_dir()
    files = []
    for file in CARD.files:
        content, package = file.role.encode() * 100, f"tiny_{file.role}"
        publish(package, {f"{package}/it.bin": content})
        sources = (Source("package-index", parts=((f"{package}==1.0", "*/it.bin"),)),)
        digest = hashlib.sha256(content).hexdigest()
        files.append(attrs.evolve(file, size=len(content), sha256=digest, sources=sources))
    card = attrs.evolve(CARD, files=tuple(files))
    for module in (cards, inventory):
        monkeypatch.setattr(module, "load_encoders", lambda: {card.name: card})
    return card


def test_both_files_are_pulled_and_seen_as_one_download(made_up: EncoderCard) -> None:
    seen: list[tuple[int, int]] = []
    pull_encoder(made_up, lambda done, all_, _what: seen.append((done, all_)))
    assert [file.path.read_bytes() for file in made_up.files] == [b"model" * 100, b"tokenizer" * 100]
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert seen[-1] == (made_up.size, made_up.size)
    assert {all_ for _, all_ in seen} == {made_up.size}
    assert locate_encoder() == made_up
    if os.name == "posix":
        assert {stat.S_IMODE(file.path.stat().st_mode) for file in made_up.files} == {0o600}


@pytest.fixture
def without_pip(made_up: EncoderCard, index: Path, monkeypatch: pytest.MonkeyPatch) -> EncoderCard:
    bring_from(index, monkeypatch)
    return made_up


def test_a_file_with_another_checksum_is_not_kept(without_pip: EncoderCard) -> None:
    model, tokenizer = without_pip.files
    wrong = attrs.evolve(without_pip, files=(model, attrs.evolve(tokenizer, sha256="0" * 64)))
    with pytest.raises(DownloadError, match="checksum"):
        pull_encoder(wrong, silent)
    assert not wrong.installed
    pull_encoder(without_pip, silent)
    assert without_pip.installed, "what was there is kept, and the rest got"


@needs_encoder
def test_the_real_files_are_those_of_the_card(home: Path) -> None:
    assert len(FILES) == 2
    install(home)
    assert "as it should be" in said("models", "verify", CARD.name)
    found = document("models", "path", CARD.name)
    assert found == {"name": CARD.name, "path": str(CARD.model.path), "tokenizer": str(CARD.tokenizer.path)}
