"""Model cards: which model is meant, and what to do when it is not there."""

import os
import re
from pathlib import Path

import attrs
import pytest
from test_gguf import file_of, pair

from lsp_calib import home as state
from lsp_calib.errors import ModelFileError, NoModelError, SettingsError
from lsp_calib.inference.choice import CACHE_MB
from lsp_calib.inference.models import demands, gguf
from lsp_calib.inference.models.cards import (
    ChatFormat,
    CompletionFormat,
    ModelCard,
    card_for_file,
    chat_format,
    choose,
    completion_format,
    load_cards,
)
from lsp_calib.values import Timing

pytestmark = pytest.mark.usefixtures("home")

HEADER = file_of([])
SMALL, LARGE = "smollm2-135m", "qwen2.5-coder-1.5b"


def install(name: str) -> Path:
    """A file where the model would lie: an empty GGUF of the right size, which takes no room."""
    card = load_cards()[name]
    card.path.parent.mkdir(exist_ok=True)
    card.path.write_bytes(HEADER)
    os.truncate(card.path, card.size or 1 << 30)
    return card.path


@pytest.mark.parametrize("name", sorted(load_cards()))
def test_a_shipped_card_says_all_that_is_needed_to_get_and_ask_its_model(name: str) -> None:
    card = load_cards()[name]
    assert re.fullmatch("[0-9a-f]{64}", card.sha256) or (card.sha256 == "" and not card.verified)
    assert card.file.endswith(".gguf")
    assert Path(card.file).name == card.file, "the file lies in the models folder itself"
    assert card.size > 1 << 20 or (card.size == 0 and not card.sha256), "a checksum comes with a size"
    assert card.parameters > 1e8
    assert all((card.kv_bytes, card.title, card.licence, card.quantisation, card.window > 0))
    assert card.window / 2 < card.context, "a window of source text fits, even where its tokens are short"
    assert card.completion.layout in ("prefix", "fim")
    fim = (card.completion.fim_prefix, card.completion.fim_suffix, card.completion.fim_middle)
    assert all(fim) or card.completion.layout == "prefix"
    assert card.sources
    assert card.sources[0].kind == "hub", "a package index is the mirror"
    for source in card.sources:
        if source.kind == "hub":
            assert re.fullmatch(r"[\w.-]+/[\w.-]+", source.repo)
            assert source.file == card.file
            continue
        assert source.kind == "package-index"
        assert card.sha256, "strangers' uploads are only as good as their checksum"
        for requirement, member in source.parts:
            assert re.fullmatch(r"[\w.-]+==[\w.]+", requirement), "an exact version"
            assert member


def test_code_models_complete_comments_by_themselves_and_small_general_ones_by_hand() -> None:
    by_hand = {card.name for card in load_cards().values() if not card.comments}
    assert by_hand == {"smollm2-135m", "gemma-3-270m"}


def test_one_card_is_recommended_and_comes_first() -> None:
    cards = load_cards().values()
    assert [card.recommended for card in cards] == [True, *[False] * (len(cards) - 1)]
    rest = [card for card in cards if card.completion.layout == "fim" and not card.recommended]
    assert rest == sorted(rest, key=lambda card: -card.parameters)


def test_without_a_wish_the_recommended_installed_model_is_taken_however_slow_it_is(home: Path) -> None:
    small = install(SMALL)
    assert choose(None)[1] == small
    install("qwen2.5-coder-7b")
    assert choose(None)[0].name == "qwen2.5-coder-7b"
    large = install(LARGE)
    demands.remember_speed(load_cards()[LARGE], demands.Speed(2.0, 20))
    card, path = choose(None)
    assert (card.name, path) == (LARGE, large)
    assert large.is_relative_to(home)
    assert choose(SMALL)[0].name == SMALL


def test_a_model_that_is_not_installed_names_the_command_that_gets_it() -> None:
    with pytest.raises(NoModelError, match="lsp-calib models pull smollm2-135m"):
        choose(None)
    install("smollm2-135m")
    with pytest.raises(NoModelError, match=r"lsp-calib models pull qwen2\.5-coder-1\.5b"):
        choose("qwen2.5-coder-1.5b")


@pytest.mark.parametrize(
    "name", ["gpt-9", "/no/such/file.gguf", "a" * 5000, "~nobody-of-that-name/m.gguf", "a\0b", "."]
)
def test_an_unknown_model_is_a_settings_error_that_lists_the_known_ones(name: str) -> None:
    with pytest.raises(SettingsError, match="smollm2-135m"):
        choose(name)


@pytest.mark.parametrize(
    "name",
    ["evil.gguf", "./evil.gguf", "models/evil.gguf", "models/../evil.gguf", "evil", "smollm2-135m.gguf"],
)
def test_a_relative_path_is_no_model_even_if_the_file_is_there(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The working folder is the workspace as a rule: what lies in a checkout must not be loaded."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models").mkdir()
    (tmp_path / name).write_bytes(HEADER)
    with pytest.raises(SettingsError, match="absolute path"):
        choose(name)
    assert choose(str(tmp_path / name))[1] == tmp_path / name


def test_a_card_goes_before_a_file_of_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "smollm2-135m").write_bytes(HEADER)
    installed = install("smollm2-135m")
    assert choose("smollm2-135m")[1] == installed


def test_a_path_below_the_users_home_is_an_absolute_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    (tmp_path / "my.gguf").write_bytes(HEADER)
    assert choose("~/my.gguf")[1] == tmp_path / "my.gguf"


def test_a_path_to_any_file_gets_a_plain_card(tmp_path: Path) -> None:
    file = tmp_path / "my-own.Q8_0.gguf"
    file.write_bytes(HEADER)
    card, path = choose(str(file))
    assert path == file
    assert (card.name, card.size, card.sha256) == ("my-own.Q8_0", 24, "")
    assert card.completion.layout == "prefix", "an unknown model is not asked with control tokens it may lack"


def test_a_path_to_a_known_file_gets_its_card(tmp_path: Path) -> None:
    card = attrs.evolve(load_cards()["smollm2-135m"], size=24)
    file = tmp_path / card.file
    file.write_bytes(HEADER)
    assert card_for_file(file, {card.name: card}) is card
    file.write_bytes(HEADER + b"1")
    assert card_for_file(file, {card.name: card}).sha256 == "", "another size: another file"


@pytest.mark.parametrize(
    "text",
    ["", "name = ", 'name = "x"', 'colour = "red"', "[completion]\nshape = 1", '[[sources]]\nurl = "x"'],
)
def test_a_damaged_card_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    (tmp_path / "odd.toml").write_text(text)
    monkeypatch.setattr(state, "shipped_models", lambda: tmp_path)
    with pytest.raises(SettingsError, match=r"odd\.toml"):
        load_cards()


def test_a_damaged_file_is_named_before_anything_is_started() -> None:
    path = install("smollm2-135m")
    path.write_bytes(b"PK" + bytes(100))
    with pytest.raises(ModelFileError, match="not a GGUF file"):
        choose(None)
    path.write_bytes(HEADER)
    with pytest.raises(ModelFileError, match="truncated: 24 of"):
        choose("smollm2-135m")


def own(folder: Path, *tokens: str, template: str = "") -> ModelCard:
    """The card of a file that has these tokens and this chat template."""
    pairs: dict[str, int | str | list[str]] = {
        "general.architecture": "llama",
        "llama.context_length": 1024,
        "tokenizer.chat_template": template,
        "tokenizer.ggml.tokens": [*tokens],
    }
    (folder / "own.gguf").write_bytes(file_of([pair(name, value) for name, value in pairs.items()]))
    return choose(str(folder / "own.gguf"))[0]


def test_a_file_without_a_card_is_asked_as_its_header_says(tmp_path: Path) -> None:
    tokens = ("a", "<fim_middle>", "<fim_prefix>", "<fim_suffix>")
    card = own(tmp_path, *tokens, template="{{'<|im_start|>'}} <|im_end|>")
    assert card.completion == CompletionFormat("fim", "<fim_prefix>", "<fim_suffix>", "<fim_middle>")
    assert card.chat == load_cards()["smollm2-135m"].chat
    assert card.context == 1024
    plain = own(tmp_path, "a", "<fim_prefix>", template="{{ bos_token }}")
    assert (plain.completion, plain.chat) == (CompletionFormat(), ChatFormat())


@pytest.mark.model
def test_a_card_agrees_with_what_the_file_says_of_itself(model_path: Path, model_card: ModelCard) -> None:
    metadata = gguf.inspect(model_path)
    assert metadata.quantisation == model_card.quantisation
    assert metadata.kv_bytes == model_card.kv_bytes
    assert metadata.context_length >= model_card.context
    assert chat_format(metadata.chat_template) == model_card.chat
    assert completion_format(metadata.fim) == model_card.completion


def test_a_slow_model_is_said_to_be_slow_beside_the_smallest() -> None:
    large, small = load_cards()[LARGE], load_cards()[SMALL]
    assert demands.slow_here(large) == "", "not timed"
    demands.remember_speed(large, demands.Speed(0.7, 20))
    assert demands.slow_here(large) == ""
    demands.remember_speed(large, demands.Speed(0.9, 20))
    assert demands.slow_here(large) == f"{LARGE} is slow here: 900 ms a key; {SMALL} is the smallest model."
    demands.remember_speed(small, demands.Speed(0.12, 20))
    assert demands.slow_here(large) == f"{LARGE} is slow here: 900 ms a key; {SMALL} takes 120 ms."
    demands.remember_speed(small, demands.Speed(0.8, 20))
    assert demands.slow_here(small) == f"{SMALL} is slow here: 800 ms a key."


def test_what_a_model_needs_is_its_weights_its_caches_and_something_over() -> None:
    card = load_cards()["qwen2.5-coder-1.5b"]
    kept = CACHE_MB * 10**6
    assert demands.needed(card) > card.size + 2 * card.context * card.kv_bytes + kept
    large = attrs.evolve(card, kv_bytes=1 << 20)
    assert demands.needed(large) - demands.needed(attrs.evolve(large, kv_bytes=0)) == (
        2 * card.context * large.kv_bytes - kept
    ), "of which one place is larger than all that may be kept"
    assert demands.needed(load_cards()["qwen2.5-coder-7b"]) > 4 << 30, "estimated where the file is not here"
    assert demands.available() > 0


def test_the_median_of_20_answers_is_remembered_and_none_that_was_timed_under_load() -> None:
    card, quiet = load_cards()[LARGE], [False]
    answers = demands.Answers(card, lambda: quiet[0])
    assert not any(answers.took(Timing(total_ms=3000.0)) for _ in range(100))
    quiet[0] = True
    found = [answers.took(Timing(total_ms=ms)) for ms in [2500.0] * 4 + [330.0] * 16]
    assert found == [False] * 19 + [True], "it is known after 20 answers"
    answers.remember()
    assert demands.known_speed(card) == demands.Speed(0.33, 20)
    assert not any(answers.took(Timing()) for _ in range(100)), "without a time it is no answer of the model"


@pytest.mark.parametrize("name", sorted(load_cards()))
def test_the_documentation_says_what_the_cards_say_and_these_where_terms_are(name: str) -> None:
    card = load_cards()[name]
    page = (Path(__file__).parents[2] / "docs" / "models.md").read_text("utf-8")
    fim = "yes" if card.completion.layout == "fim" else "no"
    checksum = "verified" if card.verified else "none"
    row = f"| `{name}` | {card.licence} | {fim} | {checksum} |"
    assert row in page
    assert f" | {demands.needed(card) / 1e9:.1f} GB | " in page.partition(row)[2].partition("\n")[0]

    assert (card.licence == "Apache-2.0") == (card.notice == "")
    assert card.licence == "Apache-2.0" or "https://" in card.notice
