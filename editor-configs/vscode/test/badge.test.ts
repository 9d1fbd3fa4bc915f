import { beforeEach, describe, expect, it, vi } from 'vitest';
import { BadgeView, type OnScreen } from '../src/badge';
import type { Suggestion } from '../src/wire';
import { active, commands, listeners, Position, Range, Selection, settings, window } from './mock_vscode';

vi.mock('vscode', async () => await vi.importActual('./mock_vscode'));

interface Drawn {
  readonly text: string;
  readonly color: string;
  readonly at: number;
}

/** An editor of one line, in which somebody types: VS Code tells of the text first, then of the cursor. */
class Editor {
  readonly badges: (Drawn | undefined)[] = []; // what was drawn, one after the other; undefined: taken away
  readonly document = {
    version: 1,
    lineAt: () => ({ text: this.line }),
    getText: ({ start, end }: Range) => this.line.slice(start.character, end.character),
  };

  constructor(
    public line: string,
    public cursor = line.length,
  ) {}

  at(character: number) {
    return new Position(0, character);
  }

  setDecorations = (_kind: object, all: { range: Range; renderOptions: { after: { contentText: string; color: { id: string } } } }[]) => {
    const [one] = all;
    const after = one?.renderOptions.after;
    this.badges.push(one && after && { text: after.contentText, color: after.color.id, at: one.range.end.character });
  };

  /** Replaces the characters from one to another; the cursor is then behind what was written, or `inside` it. */
  replace(from: number, to: number, text: string, inside = 0) {
    this.line = this.line.slice(0, from) + text + this.line.slice(to);
    this.document.version += 1;
    const change = { range: new Range(this.at(from), this.at(to)), text };
    listeners.get('text')!({ document: this.document, contentChanges: [change] });
    this.move(from + text.length - inside);
  }

  type(text: string, inside = 0) {
    this.replace(this.cursor, this.cursor, text, inside);
  }

  move(character: number) {
    this.cursor = character;
    listeners.get('selection')!({ textEditor: this, selections: [new Selection(this.at(character), this.at(character))] });
  }
}

const LINE = 'return total(values) / count';
const rising = (confidence: number): Suggestion => ({
  id: 'one',
  confidence,
  tier: confidence >= 0.78 ? 'accept' : confidence < 0.25 ? 'reject' : 'review',
  text: LINE,
});

let editor: Editor;
let view: BadgeView;
const told: (OnScreen | undefined)[] = [];

/** The server's answer to a request from where the cursor is: the whole suggestion, from where it began. */
async function answer(...offered: [string, Suggestion][]) {
  const items = offered.map(([insertText, suggestion]) => ({
    insertText,
    range: new Range(editor.at(0), editor.at(editor.line.length)),
    command: { arguments: [suggestion] },
  }));
  const token = { isCancellationRequested: false };
  return view.follow(editor.document as never, editor.at(editor.cursor) as never, token as never, items as never);
}

beforeEach(async () => {
  settings.clear();
  told.splice(0);
  window.state.focused = true;
  commands.executeCommand.mockClear();
  editor = new Editor('ret');
  active.editor = editor;
  view = new BadgeView((shown) => told.push(shown));
  await answer([LINE, rising(0.2)]);
});

describe('while a suggestion is typed along, the badge', () => {
  it('is replaced in place at each key, and never taken away between two', async () => {
    for (const [key, confidence] of [['u', 0.24], ['r', 0.3], ['n', 0.6], [' ', 0.8]] as const) {
      editor.type(key);
      await answer([LINE, rising(confidence)]);
    }
    expect(editor.badges.map((one) => one?.text)).toEqual(['✗ reject', '✗ reject', '▲ review', '▲ review', '● accept']);
    expect(editor.badges.map((one) => one?.color)).toEqual(['reject', 'reject', 'review', 'review', 'accept'].map((tier) => `lspCalib.${tier}`));
    // Behind the line, however far it has grown when VS Code draws there: else the badge would push the ghost text aside.
    expect(Math.min(...editor.badges.map((one) => one!.at))).toBeGreaterThan(LINE.length);
    expect(told.map((one) => one?.tier)).toEqual(['✗ reject', '✗ reject', '▲ review', '▲ review', '● accept']);
    expect(commands.executeCommand.mock.calls).toEqual([['setContext', 'lspCalib.badgeVisible', true]]);
  });

  it('stays as it is where no answer comes between two keys', () => {
    editor.type('u');
    editor.type('r');
    expect(editor.badges).toHaveLength(1);
    expect(view.id).toBe('one');
  });

  it('stays where the editor closes a bracket, and where it is typed over', async () => {
    editor.type('urn total');
    editor.type('()', 1);
    editor.type('values');
    editor.replace(editor.cursor, editor.cursor + 1, ')');
    editor.type(' ');
    expect(editor.line).toBe('return total(values) ');
    expect(editor.badges).toHaveLength(1);
  });

  it('stays where a word of it is accepted, which replaces what was typed of it', () => {
    editor.replace(0, editor.cursor, 'return total');
    expect(editor.badges).toHaveLength(1);
  });

  it('goes with its last character', () => {
    editor.type(LINE.slice(3));
    expect(editor.badges.at(-1)).toBeUndefined();
    expect(told.at(-1)).toBeUndefined();
  });

  it('is that of the one that still agrees, of several', async () => {
    await answer([LINE, rising(0.5)], ['retry()', { ...rising(0.3), id: 'two' }]);
    expect(editor.badges.at(-1)?.text).toBe('1: ▲ review \u20032: ▲ review');
    editor.type('r');
    expect(editor.badges.at(-1)?.text).toBe('2: ▲ review');
    expect(view.id).toBe('two');
    expect(editor.badges).not.toContain(undefined);
  });
});

describe('the badge goes at once', () => {
  it.each<[string, (one: Editor) => void]>([
    ['another character', (one) => one.type('x')],
    ['a character taken back', (one) => one.replace(2, 3, '')],
    ['the next line', (one) => one.type('\n')],
    ['a change before it', (one) => one.replace(0, 1, 'R')],
    ['a move of the cursor', (one) => one.move(1)],
    ['another editor', () => listeners.get('editor')!(undefined)],
    ['a window without the focus', () => listeners.get('window')!({ focused: false })],
  ])('with %s', (_what, happens) => {
    happens(editor);
    expect(editor.badges.at(-1)).toBeUndefined();
    expect(view.id).toBeUndefined();
    expect(told.at(-1)).toBeUndefined();
    expect(commands.executeCommand.mock.calls.at(-1)).toEqual(['setContext', 'lspCalib.badgeVisible', false]);
  });

  it('with an answer that has nothing', async () => {
    await answer();
    expect(editor.badges.at(-1)).toBeUndefined();
  });

  it('and does not come in a window without the focus', async () => {
    window.state.focused = false;
    listeners.get('window')!({ focused: false });
    await answer([LINE, rising(0.9)]);
    expect(editor.badges.at(-1)).toBeUndefined();
  });
});

describe('badge.number', () => {
  it('shows the number instead of the tier, here and in the status bar, from when it is set', () => {
    settings.set('lspCalib.badge.number', { globalValue: true });
    listeners.get('configuration')!({});
    expect(editor.badges.map((one) => one?.text)).toEqual(['✗ reject', '✗ 20 %']);
    expect(told.at(-1)?.tier).toBe('✗ 20 %');
  });
});
