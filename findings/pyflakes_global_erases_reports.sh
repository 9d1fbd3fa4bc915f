#!/usr/bin/env bash
# pyflakes 4.1.0 (and 3.4.0): one `global` statement erases its reports of undefined names, in the whole file.
#
# Behaviour: a name that nothing assigns at module level is reported as undefined where a function reads it. Once
# any other function declares it `global`, above or below, no reading of it is reported any more: reports that were
# made already are removed again. The function that declares it need not assign it, nor ever be called.
# Expected: the declaration concerns its own function. Python raises NameError at the reading all the same.
# Why it matters: who asks a linter whether a line leaves a name undefined must not take its silence for an answer
# where the file has a `global` of that name. We say nothing of such names.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
reads='def reads():\n    return total + 1\n'
declares='def declares():\n    global total\n    print("nothing is assigned")\n'
printf "$reads" >"$folder/alone.py"
printf "$reads\n\n$declares" >"$folder/before.py"
printf "$declares\n\n$reads" >"$folder/behind.py"

for version in 3.4.0 4.1.0; do
  "$folder/venv/bin/python" -m pip --disable-pip-version-check --quiet install "pyflakes==$version"
  for file in alone before behind; do
    said=$("$folder/venv/bin/python" -m pyflakes "$folder/$file.py" || true)
    echo "pyflakes $version, $file.py: ${said:-nothing}"
    case $file in
      alone) grep -q "undefined name 'total'" <<<"$said" ;;
      *) ! grep -q "undefined name" <<<"$said" ;;
    esac || { echo "CHANGED: $version, $file.py"; exit 1; }
  done
done
# Python's own word: the name is undefined at run time.
(cd "$folder" && "$folder/venv/bin/python" -c 'import behind; behind.declares(); behind.reads()' 2>&1 || true) |
  grep "NameError: name 'total' is not defined"
echo "as described"
