"""A chat format is recognised by what a model's own template says."""

import pytest

from lsp_calib.inference.models.cards import ChatFormat, chat_format, completion_format

# The part of real templates that tells them apart.
TEMPLATES = {
    "chatml": "{{'<|im_start|>' + m['role'] + '\\n' + m['content'] + '<|im_end|>' + '\\n'}}",
    "llama2": "{% set content = '<<SYS>>' %}{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}",
    "llama3": "{{ '<|start_header_id|>' + m['role'] + '<|end_header_id|>\\n\\n'+ content + '<|eot_id|>' }}",
    "gemma": "{{ '<start_of_turn>' + role + '\\n' + m['content'] | trim + '<end_of_turn>\\n' }}",
    "mistral": "{{ '[INST] ' + m['content'] + ' [/INST]' }}",
    "deepseek-coder": "{{'### Instruction:\\n' + m['content']}}{{'### Response:\\n' + '\\n<|EOT|>\\n'}}",
    "deepseek-2": "{{ 'User: ' + m['content'] + '\\n\\n' }}{{ 'Assistant: ' + m['content'] + eos_token }}",
    "deepseek-3": "{{'<｜User｜>' + m['content']}}{{'<｜Assistant｜>' + eos_token}}",
    "alpaca": "{{ '### Instruction:\\n' + m['content'] + '\\n\\n' }}{{ '### Response:\\n' }}",
    "granite": "{{- '<|start_of_role|>' + m['role'] + '<|end_of_role|>' + '<|end_of_text|>\\n' }}",
    "granite-code": "{{ 'Question:\\n' + m['content'] + '\\n\\n' }}{{ 'Answer:\\n' }}",
    "starcoder": "{{ '### Instruction\\n' + m['content'] + '\\n\\n' }}{{ '### Response\\n' }}",
    "starchat": "{{ '<|user|>\\n' + m['content'] + '<|end|>\\n' + '<|assistant|>\\n' }}",
}
OPENINGS = {
    "chatml": "<|im_start|>user\n",
    "llama2": "[INST] ",
    "llama3": "<|start_header_id|>user<|end_header_id|>\n\n",
    "gemma": "<start_of_turn>user\n",
    "mistral": "[INST] ",
    "deepseek-coder": "### Instruction:\n",
    "deepseek-2": "User: ",
    "deepseek-3": "<｜User｜>",
    "alpaca": "### Instruction:\n",
    "granite": "<|start_of_role|>user<|end_of_role|>",
    "granite-code": "Question:\n",
    "starcoder": "### Instruction\n",
    "starchat": "<|user|>\n",
}


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_known_template_gives_its_format(name: str) -> None:
    found = chat_format(TEMPLATES[name])
    assert found.user_open == OPENINGS[name]
    assert found.user_close + found.assistant_open, "something tells the model that it is its turn"
    assert found.answer_close, "and where an answer ends"


def test_formats_that_look_alike_are_told_apart() -> None:
    found = {name: chat_format(template) for name, template in TEMPLATES.items()}
    assert len(set(found.values())) == len(found)
    assert "</s>" in found["mistral"].answer_close
    assert found["chatml"].answer_close == "<|im_end|>\n"


@pytest.mark.parametrize("template", ["", "{{ messages }}", "{% if x %}[inst]{% endif %}"])
def test_an_unknown_template_gives_none(template: str) -> None:
    assert chat_format(template) == ChatFormat()


def test_fill_in_the_middle_needs_all_three_texts() -> None:
    assert completion_format(("p", "s", "m")).layout == "fim"
    assert completion_format(("p", "s", "m")).fim_suffix == "s"
    for texts in ((), ("p",), ("p", "s")):
        assert completion_format(texts).layout == "prefix"
