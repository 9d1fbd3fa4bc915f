import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import type { LanguageClient } from 'vscode-languageclient/node';
import { CursorFeature, EVERY_MS, OPENING_MS } from '../src/cursor';
import { active, listeners, Position, Range, Selection } from './mock_vscode';

vi.mock('vscode', async () => await vi.importActual('./mock_vscode'));

const ASKED = { experimental: { lspCalib: { cursor: true } } };
const sent: string[] = [];
const connection = { lost: false };
const client = {
  protocol2CodeConverter: { asDocumentSelector: (filters: { scheme: string }[]) => filters.map(({ scheme }) => scheme) },
  code2ProtocolConverter: {
    asTextDocumentPositionParams: ({ uri }: Document, { line, character }: Position) => `${uri.path}:${line}:${character}`,
  },
  async sendNotification(method: string, place: string) {
    expect(method).toBe('lsp-calib/cursor');
    sent.push(place);
    if (connection.lost) {
      throw new Error('write after end');
    }
  },
};

interface Document {
  readonly uri: { scheme: string; path: string };
}

/** Opens an editor as the active one, at a place. VS Code tells of a text first, then of the cursor. */
function open(path: string, line = 0, character = 0, scheme = 'file') {
  const editor = { document: { uri: { scheme, path } }, selection: selectionAt(line, character) };
  active.editor = editor;
  listeners.get('editor')?.(editor);
  return editor;
}

function selectionAt(line: number, character: number) {
  return new Selection(new Position(line, character), new Position(line, character));
}

type Editor = ReturnType<typeof open>;

function move(editor: Editor, line: number, character: number) {
  editor.selection = selectionAt(line, character);
  listeners.get('selection')?.({ textEditor: editor });
}

function edit(editor: Editor, text: string, ...at: [number, number][]) {
  const changes = at.map(([line, character]) => ({ text, range: new Range(new Position(line, character), new Position(line, character)) }));
  listeners.get('text')?.({ document: editor.document, contentChanges: changes });
}

let feature: CursorFeature;

function begin(capabilities: object = ASKED) {
  feature.initialize(capabilities, [{ scheme: 'file' }]);
}

beforeEach(() => {
  vi.useFakeTimers();
  sent.splice(0);
  connection.lost = false;
  listeners.clear();
  delete active.editor;
  feature = new CursorFeature(client as unknown as LanguageClient);
});

afterEach(() => {
  feature.clear();
  expect(vi.getTimerCount()).toBe(0);
  vi.useRealTimers();
});

it('tells the place where the cursor is when the server starts, and in each editor that becomes the active one', () => {
  open('/a.py', 3, 4);
  begin();
  vi.advanceTimersByTime(EVERY_MS);
  const opened = open('/b.py');
  move(opened, 1, 2); // as VS Code puts it there
  vi.advanceTimersByTime(OPENING_MS);
  expect(sent).toEqual(['/a.py:3:4', '/b.py:1:2']);
});

it('tells at most one place in each pause, and the last one always', () => {
  const editor = open('/a.py');
  begin();
  for (let line = 1; line <= 20; line++) {
    move(editor, line, 0);
    vi.advanceTimersByTime(50);
  }
  const before = sent.length;
  vi.advanceTimersByTime(10 * EVERY_MS);
  expect(before).toBe(1 + Math.floor((20 * 50) / EVERY_MS));
  expect(sent.slice(before)).toEqual(['/a.py:20:0']);
  move(editor, 5, 1);
  expect(sent.at(-1)).toBe('/a.py:5:1'); // after a pause at once
});

it('tells nothing while one types: the document does', () => {
  const editor = open('/a.py', 0, 0);
  begin();
  vi.advanceTimersByTime(EVERY_MS);
  for (const [text, column, cursor] of [['f', 0, 1], ['()', 1, 2], ['x', 2, 3]] as const) {
    edit(editor, text, [0, column]);
    move(editor, 0, cursor);
  }
  edit(editor, '\n    ', [0, 3]);
  move(editor, 1, 4);
  vi.advanceTimersByTime(10 * EVERY_MS);
  expect(sent).toEqual(['/a.py:0:0']);
});

it('tells where the cursor is after a change elsewhere, and after several at once', () => {
  const editor = open('/a.py', 5, 2);
  begin();
  vi.advanceTimersByTime(EVERY_MS);
  edit(editor, 'import os\n', [0, 0]);
  move(editor, 6, 2);
  vi.advanceTimersByTime(EVERY_MS);
  edit(editor, 'x', [7, 0], [6, 2]);
  move(editor, 6, 3);
  expect(sent).toEqual(['/a.py:5:2', '/a.py:6:2', '/a.py:6:3']);
});

it('tells the place again to which one comes back after an edit elsewhere', () => {
  const editor = open('/a.py', 5, 2);
  begin();
  vi.advanceTimersByTime(EVERY_MS);
  edit(editor, 'x', [9, 0]);
  move(editor, 9, 1);
  move(editor, 5, 2);
  expect(sent).toEqual(['/a.py:5:2', '/a.py:5:2']);
});

it('tells nothing of documents that the client does not synchronise, nor of other editors', () => {
  const output = open('/log', 2, 0, 'output');
  begin();
  move(output, 3, 0);
  const editor = open('/a.py', 1, 0);
  move(output, 4, 0);
  vi.advanceTimersByTime(OPENING_MS + EVERY_MS);
  edit(editor, 'x', [1, 0]);
  edit(output, 'logged', [9, 0]);
  move(editor, 1, 1);
  active.editor = undefined as never;
  listeners.get('editor')!(undefined);
  expect(sent).toEqual(['/a.py:1:0']);
});

it.each([{}, { experimental: null }, { experimental: { lspCalib: { badges: {} } } }])('tells nothing to a server that announces %j', (capabilities) => {
  const editor = open('/a.py');
  begin(capabilities);
  move(editor, 1, 0);
  expect(sent).toEqual([]);
});

it('tells nothing after the end of the server, and the next one where the cursor is', () => {
  const editor = open('/a.py');
  begin();
  move(editor, 1, 0);
  feature.clear();
  move(editor, 2, 0);
  vi.advanceTimersByTime(10 * EVERY_MS);
  expect(sent).toEqual(['/a.py:0:0']);
  begin();
  expect(sent).toEqual(['/a.py:0:0', '/a.py:2:0']);
});

it('leaves it to the client to say that the server has gone', async () => {
  open('/a.py');
  connection.lost = true;
  begin(); // a rejection that nobody handles fails the tests
  await vi.advanceTimersByTimeAsync(EVERY_MS);
  expect(sent).toHaveLength(1);
});
