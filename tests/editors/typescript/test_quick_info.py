"""TypeScript's language service (5.9), as editors ask it, shows what ours finds as documentation and puts in.

LSP_CALIB_TYPESCRIPT: a Node.js that finds the package (`.ci/typescript` sets one up).
"""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import pytest
from shown_documentation import compared, inserted, layouts, quick_infos

NODE = os.environ.get("LSP_CALIB_TYPESCRIPT", "")
pytestmark = pytest.mark.skipif(not NODE, reason="no TypeScript 5.9: see .ci/typescript")
TOOL = partial(quick_infos, node=NODE)

# Functions of all kinds, as they stand in projects.
SAMPLE = """\
/**
 * @license
 * Copyright 2020 The Authors
 */

import { memo } from "react";

/** Reads a file. */
export async function read(path: string): Promise<string> {
  return path;
}

// eslint-disable-next-line no-console
export function write(path: string): void {
  console.log(path);
}

/** Adds. */
// eslint-disable-next-line max-params
export function add(a: number, b: number): number {
  return a + b;
}

/* Plain. */
function plain() {
  return 1;
}

export function over(a: string): string;
export function over(a: number): number;
export function over(a: any): any {
  return a;
}

/** Of strings. */
export function said(a: string): string;
/** Of numbers. */
export function said(a: number): number;
export function said(a: any): any {
  return a;
}

/** A shop. */
export class Shop {
  /** Opens it. */
  constructor(private readonly name: string) {}

  /**
   * Sells an item.
   *
   * @param item - that is sold
   */
  @logged({
    level: 1,
  })
  sell(item: string): void {
    console.log(item);
  }

  @logged({
    level: 1,
  })
  // It is slow.
  buy(item: string): void {
    console.log(item);
  }

  @logged()
  /** Not seen. */
  close() {
    return 1;
  }

  static count = () => {
    return 1;
  };

  /** Its name. */

  get title() {
    return this.name;
  }

  private hidden() {
    return 2;
  }
}

class Empty {
  constructor() {
    console.log(1);
  }
}

/** A list. */
export const List = memo(function List() {
  return null;
});

export const table = {
  /** Its first row. */
  first() {
    return 1;
  },
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

export
function below() {
  return 1;
}
"""


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    sample = tmp_path / "sample.ts"
    sample.write_text(SAMPLE)
    return [sample]


def test_it_shows_each_layout_as_the_table_has_it(tmp_path: Path) -> None:
    shown = list(layouts("typescript", TOOL, tmp_path))
    assert len(shown) > 20
    assert [one for one in shown if one[1] != one[2]] == []


def test_it_shows_what_ours_takes_for_documentation(files: list[Path]) -> None:
    pairs = list(compared("typescript", files, TOOL))
    assert len(pairs) == 23
    assert [(one.shown, one.kind) for one in pairs if one.kind != "agreed"] == []


def test_it_shows_each_sentence_at_its_function_alone(files: list[Path], tmp_path: Path) -> None:
    (tmp_path / "copies").mkdir()
    placed, wrong = inserted("typescript", files, TOOL, tmp_path / "copies")
    assert (placed, wrong) == (14, [])
