"""`lsp-calib models`: list, get and check models."""

from __future__ import annotations

import json
from importlib.util import find_spec
from typing import Any

from lsp_calib import home
from lsp_calib.calibration.calibrators.calibrator import MAX_BYTES
from lsp_calib.commands.engine import Say
from lsp_calib.commands.printing import download_progress
from lsp_calib.errors import NoModelError, SettingsError
from lsp_calib.files import read_file
from lsp_calib.inference.models import download, sidecar
from lsp_calib.inference.models.cards import (
    DEFAULT_ENCODER,
    EncoderCard,
    ModelCard,
    choose,
    load_cards,
    load_encoders,
    locate,
    verify_encoder,
)
from lsp_calib.inference.models.inventory import Entry, fitting, remove
from lsp_calib.installation import how_to_install
from lsp_calib.settings import Settings, resolve

Outcome = tuple[dict[str, Any], list[str]]
"""The result of a command: for `--json`, and as sentences for people."""


HEADER = (
    f"{'name':20}  {'download':>8}  {'weights':7}  {'licence':18}  {'memory':>7}  {'':13}  {'right':>5}  here"
)
"""Above the rows of a list."""


def quality(name: str) -> dict[str, Any] | None:
    """{right, n}: the share of n Python lines that a model wrote as they were; None where it is not measured.

    These are the lines that the model's shipped calibrator was fitted on.
    """
    path = home.shipped_models() / "calibrators" / f"line-{name}-large.json"
    if not path.is_file():
        return None
    fitted = json.loads(read_file(path, MAX_BYTES))
    return {"right": round(fitted["nCorrect"] / fitted["n"], 3), "n": fitted["n"]}


def row(entry: Entry, best: str | None = None) -> str:
    """A model in one line, below `HEADER`. best: the name of the recommended model."""
    card, speed = entry.card, entry.speed
    size = f"{card.size / 1e6:.0f} MB" if card.size else "size ?"
    state = (entry.fault and "damaged") or ("installed" if entry.installed else "-")
    needs = f"{entry.needs / 1e9:4.1f} GB"
    fits = {True: "fits", False: "too large now", None: ""}[entry.fits]
    measured = quality(card.name)
    right = "-" if measured is None else f"{measured['right']:.0%}"
    slow = "" if speed is None or speed.quick_enough else "slow here: "
    pace = f"{slow}{1e3 * speed.p50:.0f} ms a key" if speed else ""
    bits = f"8-bit weights of {entry.eight_bit / 1e6:.0f} MB" if entry.eight_bit else ""
    pace = ", ".join(word for word in (pace, bits, "recommended" if card.name == best else "") if word)
    columns = (f"{card.name:20}", f"{size:>8}", f"{card.quantisation:7}", f"{card.licence:18}")
    return "  ".join((*columns, needs, f"{fits:13}", f"{right:>5}", f"{state:9}", pace)).rstrip()


def pull_model(name: str | None, say: Say, *, quiet: bool) -> Outcome:
    """Get a model; progress goes to standard error unless `quiet`. say: reports the terms of its licence.

    name: None for the one that is recommended and fits here.

    Raises SettingsError for an unknown name, and what `download.pull` raises.
    """
    named = name is not None
    if name is None:
        fits, why = fitting()
        name = fits.name
        if why:
            say(why)
    if (encoder := load_encoders().get(name)) is not None:
        with download_progress(encoder.title, quiet=quiet) as progress:
            download.pull_encoder(encoder, progress)
        return _of_encoder(encoder)
    card = _card(name)
    if card.notice:
        say(card.notice)
    with download_progress(card.title, quiet=quiet) as progress:
        pulled = download.pull(card, progress)
    sentences = [f"{card.name} is at {pulled.path}, {pulled.checked.words()}."]
    if not card.sha256:
        sentences.append(f"SHA-256 {pulled.sha256}; from now on these bytes are the ones expected.")
    trusted, _ = resolve(Settings())
    used = next(one for one in load_cards().values() if one.name == name or one.path.is_file())
    if used.name != name and not trusted.model and not trusted.remote_url:
        sentences.append(f'{used.name} is used: to use {name}, set `model = "{name}"` in config.toml.')
    if named:  # who named none wants a first look
        sentences += _encoder_offer()
    wire = {"name": card.name, "path": str(pulled.path), "sha256": pulled.sha256, "checked": pulled.checked}
    return wire, sentences


def _encoder_offer() -> list[str]:
    """How to get the encoder that rates summaries; nothing where it is installed."""
    encoder = load_encoders()[DEFAULT_ENCODER]
    missing = any(find_spec(name) is None for name in ("onnxruntime", "tokenizers"))
    if encoder.installed and not missing:
        return []
    extra = f"{how_to_install('similarity')} and " if missing else ""
    return [
        f"Summaries are rated better with a small encoder ({encoder.size / 1e6:.0f} MB), which compares them "
        f"with the code. To get it, run {extra}`lsp-calib models pull {DEFAULT_ENCODER}`."
    ]


def verify_model(name: str) -> Outcome:
    """Compute the checksum of a model's file and compare it. Raises ModelFileError if it differs."""
    if (encoder := load_encoders().get(name)) is not None:
        verify_encoder(encoder, fresh=True)
        return _of_encoder(encoder)
    card, file = choose(name)
    actual = sidecar.verify(file, card.sha256, fresh=True)
    compared, words = _compared(card)
    wire = {"name": card.name, "path": str(file), "sha256": actual, "checked": compared}
    return wire, [f"{file}: SHA-256 {actual}, {words}."]


def path_of(name: str) -> Outcome:
    """Where an installed model is. Raises as `cards.locate` does."""
    if (encoder := load_encoders().get(name)) is None:
        card, file = locate(name)
        return {"name": card.name, "path": str(file)}, [str(file)]
    if not encoder.installed:
        raise NoModelError(f"{name} is not installed. Run `lsp-calib models pull {name}` to get it.")
    return {"name": name, **_paths(encoder)}, [str(encoder.model.path)]


def remove_model(name: str) -> Outcome:
    """Remove a model, by its name or its file's. Raises as `inventory.remove` does."""
    removed = remove(name)
    return {"removed": str(removed)}, [f"Removed {removed}."]


def _of_encoder(card: EncoderCard) -> Outcome:
    """What is said of an encoder whose files were just compared with their checksums."""
    wire = {"name": card.name, "sha256": card.sha256, "checked": "card", **_paths(card)}
    return wire, [f"{file.path}: SHA-256 {file.sha256}, as it should be." for file in card.files]


def _paths(card: EncoderCard) -> dict[str, str]:
    return {"path": str(card.model.path), "tokenizer": str(card.tokenizer.path)}


def _compared(card: ModelCard) -> tuple[str, str]:
    """The reference for a model's checksum, as on the wire and in words."""
    published = load_cards().get(card.name)
    if not card.sha256:
        return "nothing", "no card to compare it with"
    if published is None or not published.sha256:
        return "firstUse", "as when it was first pulled; its card has no checksum to compare it with"
    if not card.verified:
        return "card", "as its card says; the author of the card could not verify it"
    return "card", "as it should be"


def _card(name: str) -> ModelCard:
    cards = load_cards()
    if name not in cards:
        known = ", ".join((*cards, *load_encoders()))
        raise SettingsError(f"There is no model called {name!r}. Known models: {known}.")
    return cards[name]
