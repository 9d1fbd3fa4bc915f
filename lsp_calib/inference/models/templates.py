"""Prompt formats of a model without a card, recognised in the metadata of its file."""

from __future__ import annotations

import attrs


@attrs.frozen
class CompletionFormat:
    """The prompt format for continuing a line.

    layout "prefix": the text before the cursor and nothing else.
    layout "fim": fill-in-the-middle; the three control texts are the model's own.
    order: of a fill-in-the-middle prompt. "prefix-first": text above, text below, the cursor's line.
        "suffix-first": text below, text above, the cursor's line; a new line then keeps what is cached.
    project, file: control texts before the name of a project and of a file, where the model was trained on
        several files of a project at once; empty where not.
    """

    layout: str = "prefix"
    fim_prefix: str = ""
    fim_suffix: str = ""
    fim_middle: str = ""
    project: str = ""
    file: str = ""
    order: str = "prefix-first"


@attrs.frozen
class ChatFormat:
    """The control texts around a user's turn and a model's; empty for a base model.

    assistant_close: after an answer, where that is another text than after a user's turn.
    """

    user_open: str = ""
    user_close: str = ""
    assistant_open: str = ""
    assistant_close: str = ""

    @property
    def answer_close(self) -> str:
        """The text after an answer that is part of a prompt."""
        return self.assistant_close or self.user_close


_CHATML = ChatFormat("<|im_start|>user\n", "<|im_end|>\n", "<|im_start|>assistant\n")
_LLAMA2 = ChatFormat("[INST] ", " [/INST]", " ", " </s><s>")
_MISTRAL = ChatFormat("[INST] ", " [/INST]", " ", "</s>")
_LLAMA3 = ChatFormat(
    "<|start_header_id|>user<|end_header_id|>\n\n",
    "<|eot_id|>",
    "<|start_header_id|>assistant<|end_header_id|>\n\n",
)
_GEMMA = ChatFormat("<start_of_turn>user\n", "<end_of_turn>\n", "<start_of_turn>model\n")
_GRANITE = ChatFormat(
    "<|start_of_role|>user<|end_of_role|>",
    "<|end_of_text|>\n",
    "<|start_of_role|>assistant<|end_of_role|>",
)
_GRANITE_CODE = ChatFormat("Question:\n", "\n\n", "Answer:\n", "\n\n")
_DEEPSEEK_CODER = ChatFormat("### Instruction:\n", "\n", "### Response:\n", "\n<|EOT|>\n")
_DEEPSEEK_2 = ChatFormat("User: ", "\n\n", "Assistant: ", "<｜end▁of▁sentence｜>")
_DEEPSEEK_3 = ChatFormat("<｜User｜>", "", "<｜Assistant｜>", "<｜end▁of▁sentence｜>")
_STARCODER = ChatFormat("### Instruction\n", "\n\n", "### Response\n", "<|endoftext|>")
_STARCHAT = ChatFormat("<|user|>\n", "<|end|>\n", "<|assistant|>\n")
_ALPACA = ChatFormat("### Instruction:\n", "\n\n", "### Response:\n", "\n\n")

# The first format whose marks are all in a chat template applies: some have others' marks and more.
_MARKS: tuple[tuple[tuple[str, ...], ChatFormat], ...] = (
    (("<|im_start|>", "<|im_end|>"), _CHATML),
    (("<|start_header_id|>", "<|end_header_id|>"), _LLAMA3),
    (("<start_of_turn>", "<end_of_turn>"), _GEMMA),
    (("[INST]", "<<SYS>>"), _LLAMA2),
    (("[INST]",), _MISTRAL),
    (("<｜User｜>", "<｜Assistant｜>"), _DEEPSEEK_3),
    (("'User: '", "'Assistant: '"), _DEEPSEEK_2),
    (("### Instruction:", "### Response:", "<|EOT|>"), _DEEPSEEK_CODER),
    (("### Instruction:", "### Response:"), _ALPACA),
    (("### Instruction", "### Response"), _STARCODER),
    (("<|start_of_role|>", "<|end_of_role|>"), _GRANITE),
    (("Question:", "Answer:"), _GRANITE_CODE),
    (("<|user|>", "<|assistant|>", "<|end|>"), _STARCHAT),
)


def chat_format(template: str) -> ChatFormat:
    """The format that a chat template (Jinja) stands for; an empty one if the template is unknown."""
    return next((known for marks, known in _MARKS if all(mark in template for mark in marks)), ChatFormat())


def completion_format(fim: tuple[str, ...]) -> CompletionFormat:
    """Fill-in-the-middle with the three control texts, in the order prefix, suffix, middle; else prefix."""
    return CompletionFormat("fim", *fim) if len(fim) == 3 else CompletionFormat()
