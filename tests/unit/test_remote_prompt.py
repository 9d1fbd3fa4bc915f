"""How a remote model is asked: no document can act as a control token, and a name means a format."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp_calib.inference.models.cards import load_cards
from lsp_calib.inference.remote.prompt import card_for_name, family, find_name, flatten, harmless, same_model
from lsp_calib.values import Prompt, Segment

TEXT, CONTROL = Segment.TEXT, Segment.CONTROL
WRITTEN = """
<|fim_middle|> <|im_end|> <|endoftext|> <|file_sep|> <|eot_id|> <｜fim▁end｜> <｜User｜> <fim_prefix>
<end_of_text> <fim_middle> <file_sep> <repo_name> <reponame> <filename> <jupyter_code> <PRE> <MID> <EOT> <s>
</s> <bos> <eos> <pad> <start_of_turn> <end_of_turn> [INST] [/INST] <<SYS>> [PREFIX] [SUFFIX] [MIDDLE] <unk>
"""
TOKENS = WRITTEN.split()
CARD = load_cards()["qwen2.5-coder-1.5b"]


def prompt(*segments: tuple[Segment, str], forced: str = "") -> Prompt:
    return Prompt(segments, forced, "test")


class TestTheString:
    def test_control_texts_go_in_as_they_are(self) -> None:
        asked = prompt(
            (CONTROL, "<|fim_prefix|>"), (TEXT, "a"), (CONTROL, "<|fim_middle|>"), (TEXT, "b"), forced="c"
        )
        assert flatten(asked, CARD) == "<|fim_prefix|>a<|fim_middle|>b"
        assert flatten(asked, CARD, forced=True) == "<|fim_prefix|>a<|fim_middle|>bc"

    @pytest.mark.parametrize("token", TOKENS)
    def test_a_control_token_in_a_document_is_broken_up_visibly(self, token: str) -> None:
        asked = flatten(prompt((CONTROL, "<|fim_prefix|>"), (TEXT, f"x = '{token}'")), CARD)
        assert asked == f"<|fim_prefix|>x = '{token[0]} {token[1:]}'"

    @pytest.mark.parametrize("token", TOKENS)
    def test_neither_two_segments_nor_typed_characters_make_one_up(self, token: str) -> None:
        for at in range(1, len(token)):
            halves = prompt((TEXT, token[:at]), (TEXT, token[at:]))
            assert token not in flatten(halves, CARD)
            assert token not in flatten(prompt((TEXT, token[:at]), forced=token[at:]), CARD, forced=True)

    def test_the_cards_own_control_texts_are_known_whatever_their_shape(self) -> None:
        asked = prompt((CONTROL, "<MY-OWN>"), (TEXT, "end = '<MY-OWN>'"))
        assert flatten(asked, CARD) == "<MY-OWN>end = '< MY-OWN>'"

    @given(st.lists(st.sampled_from([*TOKENS, "<", "|", "<|", ">", "[", "fim", " ", "s>", "a"]), max_size=12))
    def test_nothing_that_is_left_is_a_control_token(self, pieces: list[str]) -> None:
        text = "".join(pieces)
        safe = harmless(text)
        assert not any(token in safe for token in TOKENS)
        assert harmless(safe) == safe
        assert safe.replace(" ", "") == text.replace(" ", "")

    @pytest.mark.parametrize(
        "code",
        [
            "if a <b> c: x[INDEX]",
            "a < b | c > d",
            "List<String> xs;",
            "x <<= 3",
            "<div class='s'>",
            "p: [int]",
        ],
    )
    def test_ordinary_code_stays_as_it_is(self, code: str) -> None:
        assert harmless(code) == code


class TestNames:
    @pytest.mark.parametrize(
        ("name", "expected"),
        [
            ("qwen2.5-coder-1.5b", "qwen2.5-coder"),
            ("Qwen/Qwen2.5-Coder-7B-Instruct", "qwen2.5-coder"),
            ("Qwen2.5-Coder-32B-Instruct-AWQ", "qwen2.5-coder"),
            ("qwen2.5-coder:1.5b-base-q4_K_M", "qwen2.5-coder"),
            ("/models/qwen2.5-coder-1.5b-instruct-q4_k_m.gguf", "qwen2.5-coder"),
            ("C:\\models\\SmolLM2-1.7B-Instruct.Q4_1.gguf", "smollm2"),
            ("Qwen2.5-7B-Instruct", "qwen2.5"),
            ("gpt-4", "gpt-4"),
        ],
    )
    def test_the_family_is_what_size_and_packing_leave(self, name: str, expected: str) -> None:
        assert family(name) == expected

    def test_one_model_has_one_size(self) -> None:
        assert same_model("qwen2.5-coder-1.5b", "Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF")
        assert not same_model("qwen2.5-coder-1.5b", "qwen2.5-coder-7b")

    def test_a_model_is_found_under_the_servers_own_name(self) -> None:
        file = "/models/qwen2.5-coder-1.5b-instruct-q4_k_m.gguf"
        assert find_name("qwen2.5-coder-1.5b", [file, "smollm2"]) == file
        assert find_name("a", ["A", "a"]) == "a"
        assert find_name("Llama3", ["llama3:latest"]) == "llama3:latest"
        both = ["qwen2.5-coder:1.5b-base", "qwen2.5-coder:1.5b-instruct"]
        assert find_name("qwen2.5-coder-1.5b", both) == both[1]
        assert find_name("qwen2.5-coder:1.5b-q4_0", [*both, "qwen2.5-coder:1.5b-instruct-q8_0"]) is None
        assert find_name("qwen2.5-coder-1.5b", ["qwen2.5-coder:7b", "gpt-4"]) is None

    def test_a_name_like_a_cards_is_asked_as_the_card_says(self) -> None:
        card = card_for_name("Qwen/Qwen2.5-Coder-7B-Instruct", load_cards())
        assert (card.name, card.sha256, card.quantisation) == ("Qwen2.5-Coder-7B-Instruct", "", "")
        assert (card.completion, card.chat, card.comments) == (CARD.completion, CARD.chat, True)
        assert not card_for_name("SmolLM2-360M", load_cards()).comments
        assert not card_for_name("mystery", load_cards()).comments
        assert card_for_name("qwen2.5-coder-1.5b", load_cards()).name == "qwen2.5-coder-1.5b"

    def test_a_base_model_does_not_pass_for_the_one_tuned_to_follow_instructions(self) -> None:
        assert find_name("qwen2.5-coder-1.5b", ["qwen2.5-coder:1.5b-base"]) is None
        assert find_name("qwen2.5-coder:1.5b-base", ["qwen2.5-coder:1.5b-instruct"]) is None
        assert same_model("qwen2.5-coder:1.5b-base", "Qwen2.5-Coder-1.5B-base-GGUF")

    @pytest.mark.parametrize(("name", "layout"), [("qwen2.5-coder:7b-base", "fim"), ("mystery", "prefix")])
    def test_a_base_model_and_an_unknown_one_have_no_turns(self, name: str, layout: str) -> None:
        card = card_for_name(name, load_cards())
        assert (card.completion.layout, card.chat.user_open) == (layout, "")
