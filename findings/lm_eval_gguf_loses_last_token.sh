#!/usr/bin/env bash
# lm_eval 0.4.13 with `--model gguf` and llama-cpp-python 0.3.36: the sum of each choice lacks its last token, and a choice
# of one token has the log-probability 0.
#
# Usage: findings/lm_eval_gguf_loses_last_token.sh MODEL.gguf
# Expected: for `echo` with `max_tokens: 1` the server gives the log-probabilities of the prompt's tokens and of the one that
#   it generated, as OpenAI's does. lm_eval leaves the last of the list out as the generated one, and sums up the choice's.
# Seen: llama-cpp-python's list ends with the prompt. So lm_eval leaves out the last token of the choice. Of choices that
#   are one token each, all sums are 0, and `acc` is the share of questions whose first choice is right. There is no warning.
# Why it matters: accuracies and probabilities of multiple choices by this way are those of shortened choices. `eval paper
#   --import` refuses such files where choices are together more than certain.
set -euo pipefail
model=$(realpath "${1:?a GGUF file of a model, such as one in ~/.local/share/lsp-calib/models}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check llama-cpp-python==0.3.36 'lm_eval[api]==0.4.13'
cat >"$work/try.py" <<'PYTHON'
import sys

from llama_cpp import Llama
from lm_eval.models.gguf import get_result

model = Llama(sys.argv[1], n_ctx=256, logits_all=True, verbose=False)
context = ">>> 2 + 3 * 4\n"
for choice in ("2", "20"):
    answer = model.create_completion(context + choice, max_tokens=1, echo=True, logprobs=10, temperature=0.0)
    told = answer["choices"][0]["logprobs"]
    of_choice = [value for value, at in zip(told["token_logprobs"], told["text_offset"]) if at >= len(context)]
    found, _ = get_result(told, len(context))
    print(f"{choice!r}: log-probabilities {[round(float(value), 3) for value in of_choice]}, lm_eval's sum {found}")
    assert "".join(told["tokens"]) == context + choice, "llama-cpp-python has changed: mend this finding"
    assert found == sum(of_choice[:-1]), "lm_eval has changed: mend this finding"
PYTHON
"$work/venv/bin/python" "$work/try.py" "$model"
echo "as found"
