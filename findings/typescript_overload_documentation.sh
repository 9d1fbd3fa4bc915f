#!/usr/bin/env bash
# TypeScript 5.9.3: quick info shows what stands above the implementation of an overloaded function if there is one
# overload, and nothing of it if there are two.
#
# Expected: documentation above the implementation is shown at each overload that has none, or never: callers do not see
#   the implementation.
# Seen: with one overload it is shown at the overload and at the implementation. With two or more it is shown nowhere, not
#   even at the implementation's own name; what stands above the first overload is shown at all of them.
# Why it matters: a sentence that is put right above such a function is lost. It goes above the first overload.
set -euo pipefail
command -v npm >/dev/null || { echo "npm is missing: put Node.js on the PATH" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
npm install --silent --no-audit --no-fund --prefix "$work" typescript@5.9.3
NODE_PATH=$work/node_modules node - <<'JAVASCRIPT'
const ts = require("typescript");
const assert = require("assert");

function shown(text) {
  const service = ts.createLanguageService({
    getScriptFileNames: () => ["a.ts"],
    getScriptVersion: () => "1",
    getScriptSnapshot: (name) => (name === "a.ts" ? ts.ScriptSnapshot.fromString(text) : undefined),
    getCurrentDirectory: () => "/",
    getCompilationSettings: () => ({ noLib: true }),
    getDefaultLibFileName: () => "",
    fileExists: (name) => name === "a.ts",
    readFile: () => text,
  });
  const places = [...text.matchAll(/function f/g)].map((match) => match.index + "function ".length);
  return places.map((at) => ts.displayPartsToString(service.getQuickInfoAtPosition("a.ts", at).documentation));
}

const implementation = "/** D */\nfunction f(a: any) {}\n";
const [one, two] = ["function f(a: string);\n", "function f(a: number);\n"];
const found = [one + implementation, one + two + implementation, "/** E */\n" + one + two + implementation].map(shown);
console.log(found);
const seen = [["D", "D"], ["", "", ""], ["E", "E", "E"]];
assert.deepStrictEqual(found, seen, "TypeScript has changed: mend this finding");
JAVASCRIPT
echo "as found"
