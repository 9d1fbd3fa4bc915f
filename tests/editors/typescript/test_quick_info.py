"""TypeScript's language service (5.9), as editors ask it, shows what ours finds as documentation and puts in.

LSP_CALIB_TYPESCRIPT: a Node.js that finds the package (`.ci/typescript` sets one up).
"""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import pytest
from shown_documentation import inserted, layouts, quick_infos

NODE = os.environ.get("LSP_CALIB_TYPESCRIPT", "")
pytestmark = pytest.mark.skipif(not NODE, reason="no TypeScript 5.9: see .ci/typescript")
TOOL = partial(quick_infos, node=NODE)

# Functions without documentation, of all kinds, as they stand in projects.
SAMPLE = """\
// eslint-disable-next-line no-console
export function write(path: string): void {
  console.log(path);
}

/* Plain. */
function plain() {
  return 1;
}

export function over(a: string): string;
export function over(a: any): any {
  return a;
}

export class Shop {
  constructor(private readonly name: string) {
    console.log(name);
  }

  @logged({
    level: 1,
  })
  // It is slow.
  buy(item: string): void {
    console.log(item);
  }

  static count = () => {
    return 1;
  };

  get title() {
    return this.name;
  }
}

export const List = memo(function List() {
  return null;
});

export const table = {
  last: function () {
    return 2;
  },
};

export const parse = (text: string) => {
  return text;
}, print = (text: string) => {
  return text;
};

register(
  function handler() {
    return 1;
  },
);

export function outer() {
  return function inner() {
    return 1;
  };
}
"""


def test_it_shows_each_layout_as_the_table_has_it(tmp_path: Path) -> None:
    shown = list(layouts("typescript", TOOL, tmp_path))
    assert len(shown) > 20
    assert [one for one in shown if one[1] != one[2]] == []


def test_it_shows_each_sentence_at_its_function_alone(tmp_path: Path) -> None:
    sample = tmp_path / "sample.ts"
    sample.write_text(SAMPLE)
    (tmp_path / "copies").mkdir()
    assert inserted("typescript", [sample], TOOL, tmp_path / "copies") == (13, [])
