import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { LanguageClient } from 'vscode-languageclient/node';
import { NextEdits, REST_MS, SOON_MS } from '../src/next_edit';
import { editWords, previewOf } from '../src/next_edit_text';
import type { NextEdit } from '../src/wire';
import { active, bar, commands, documents, editors, listeners, Position, Range, Selection, settings, window } from './mock_vscode';

vi.mock('vscode', async () => await vi.importActual('./mock_vscode'));

const ANNOUNCED = { experimental: { lspCalib: { nextEdit: true } } };
const METHOD = 'lsp-calib/nextEdit';

interface Decoration {
  readonly range: Range;
  readonly renderOptions?: { before?: { contentText: string }; after: { contentText: string; color: { id: string } } };
}

/** A document of a few lines in an editor, as far as it matters. */
class Editor {
  selection = new Selection(new Position(0, 0), new Position(0, 0));
  visibleRanges = [new Range(new Position(0, 0), new Position(50, 0))];
  revealed = 0;
  steps = 0;
  private readonly decorations = new Map<object, readonly Decoration[]>();
  readonly document;

  constructor(
    path: string,
    readonly lines: string[],
  ) {
    this.document = {
      uri: { scheme: 'file', path, toString: () => `file://${path}` },
      lineAt: (line: number) => ({ text: this.lines[line]! }),
      getText: ({ start, end }: Range) => this.lines[start.line]!.slice(start.character, end.character),
    };
  }

  /** Of what is drawn: the text that is marked, how, and what stands behind its line. */
  get drawn() {
    const all = [...this.decorations].flatMap(([kind, found]) => found.map((one) => ({ kind, ...one })));
    const marked = all.find(({ renderOptions }) => !renderOptions);
    const behind = all.find(({ renderOptions }) => renderOptions);
    if (!marked || !behind) {
      return all.length ? 'in part' : undefined;
    }
    const { before, after } = behind.renderOptions!;
    expect(behind.range.end.character).toBe(this.lines[behind.range.end.line]!.length);
    const how = (marked.kind as { options: { textDecoration: string } }).options.textDecoration;
    return [this.document.getText(marked.range), how, before?.contentText, after.contentText, after.color.id];
  }

  setDecorations = (kind: object, all: readonly Decoration[]) => this.decorations.set(kind, all);
  revealRange = () => (this.revealed += 1);

  edit = async (body: (builder: { replace(range: Range, text: string): void }) => void) => {
    this.steps += 1;
    body({ replace: (range, text) => this.replace(range, text) });
    return true;
  };

  replace({ start, end }: Range, text: string) {
    const line = this.lines[start.line]!;
    this.lines[start.line] = line.slice(0, start.character) + text + line.slice(end.character);
    listeners.get('text')!({ document: this.document, contentChanges: [{ range: new Range(start, end), text }] });
  }

  type(line: number, character: number, text: string) {
    const at = new Position(line, character);
    this.replace(new Range(at, at), text);
    this.move(line, character + text.length);
  }

  move(line: number, character: number) {
    this.selection = new Selection(new Position(line, character), new Position(line, character));
    listeners.get('selection')!({ textEditor: this });
  }
}

const sent: [string, unknown][] = [];
const offered: (Partial<NextEdit> | null)[] = [];
const client = {
  protocol2CodeConverter: {
    asDocumentSelector: (filters: { scheme: string }[]) => filters.map(({ scheme }) => scheme),
    asUri: (uri: string) => ({ toString: () => uri }),
    asRange: ({ start, end }: NextEdit['range']) => new Range(new Position(start.line, start.character), new Position(end.line, end.character)),
  },
  code2ProtocolConverter: {
    asTextDocumentPositionParams: ({ uri }: Editor['document'], { line, character }: Position) => `${uri.path}:${line}:${character}`,
  },
  async sendRequest(method: string, params: unknown) {
    sent.push([method, params]);
    return method === METHOD ? (offered.shift() ?? null) : null;
  },
};

/** An edit of a text in a line to "width". */
function edit(line: number, start: number, old = 'size', more: Partial<NextEdit> = {}): Partial<NextEdit> {
  const range = { start: { line, character: start }, end: { line, character: start + old.length } };
  return { id: `edit-${line}`, uri: 'file:///a.py', range, text: 'width', confidence: 0.9, tier: 'accept', reason: 'done once so far', ...more };
}

let edits: NextEdits;
let editor: Editor;
const asked = () => sent.filter(([method]) => method === METHOD).map(([, place]) => place);
const told = () => sent.filter(([method]) => method !== METHOD).map(([, params]) => params);
const pass = (milliseconds: number) => vi.advanceTimersByTimeAsync(milliseconds);
const feature = () => edits.featureOf(client as unknown as LanguageClient);
const begin = (capabilities: object = ANNOUNCED) => feature().initialize!(capabilities as never, [{ scheme: 'file' }]);
const context = (name: string) => (commands.executeCommand.mock.calls as unknown[][]).filter(([, key]) => key === `lspCalib.nextEdit.${name}`).at(-1)?.[2];

function open(path: string, lines: string[]) {
  const opened = new Editor(path, lines);
  editors.push(opened);
  documents.push(opened.document);
  return opened;
}

/** The change by hand, after which the cursor goes to the next line. */
async function change() {
  editor.type(0, 0, 'width');
  editor.move(1, 0);
  await pass(SOON_MS);
}

beforeEach(() => {
  vi.useFakeTimers();
  commands.executeCommand.mockClear();
  for (const all of [sent, offered, editors, documents]) all.splice(0);
  settings.clear();
  listeners.clear();
  bar.clear();
  editor = open('/a.py', [' = 3', 'print(size)', 'area = size', '']);
  active.editor = editor;
  edits = new NextEdits();
});

afterEach(() => {
  edits.dispose();
  expect(vi.getTimerCount()).toBe(0);
  vi.useRealTimers();
});

describe('the server is asked', () => {
  it('once the cursor has left the line that was changed, and once alone', async () => {
    begin();
    editor.type(0, 0, 'width');
    await pass(500);
    expect(asked()).toEqual([]);
    editor.move(1, 0);
    editor.move(2, 0);
    await pass(SOON_MS);
    await pass(3 * REST_MS);
    expect(asked()).toEqual(['/a.py:2:0']);
  });

  it('after a save, and after a rest since the last key', async () => {
    begin();
    editor.type(0, 0, 'wid');
    listeners.get('save')!(editor.document);
    await pass(SOON_MS);
    expect(asked()).toHaveLength(1);
    editor.type(0, 3, 't');
    await pass(REST_MS - 1);
    editor.type(0, 4, 'h');
    await pass(REST_MS - 1);
    expect(asked()).toHaveLength(1);
    await pass(1);
    expect(asked()).toHaveLength(2);
  });

  it('once the line is left for another document', async () => {
    begin();
    editor.type(0, 0, 'width');
    const other = open('/b.py', ['x']);
    active.editor = other;
    listeners.get('editor')!(other);
    await pass(SOON_MS);
    expect(asked()).toEqual(['/b.py:0:0']);
  });

  it.each([{}, { experimental: { lspCalib: {} } }])('never by %j', async (capabilities) => {
    begin(capabilities);
    expect([...listeners.keys()]).toEqual([]);
  });

  it('never where the setting is false', () => {
    settings.set('lspCalib.nextEdit.enabled', { globalValue: false });
    begin();
    expect([...listeners.keys()]).toEqual([]);
  });
});

describe('an edit', () => {
  it('is drawn: the old text struck through, the new one and the tier behind the line', async () => {
    begin();
    offered.push(edit(1, 6));
    await change();
    expect(editor.drawn).toEqual(['size', 'line-through', '→ width', '● accept', 'lspCalib.accept']);
    expect([context('offered'), context('visible')]).toEqual([true, true]);
    expect(bar.get('lspCalib.nextEdit')).toBeUndefined();
    expect(editor.revealed).toBe(0);
  });

  it('stands in the status bar while its place is out of sight', async () => {
    begin();
    editor.visibleRanges = [new Range(new Position(0, 0), new Position(1, 0))];
    offered.push(edit(2, 7));
    await change();
    expect(bar.get('lspCalib.nextEdit')).toBe('next edit: `size` to `width`, line 3 ●');
    expect([context('offered'), context('visible')]).toEqual([true, false]);
    editor.visibleRanges = [new Range(new Position(2, 0), new Position(9, 0))];
    listeners.get('ranges')!({ textEditor: editor });
    expect(bar.get('lspCalib.nextEdit')).toBeUndefined();
  });

  it('of another document is named, and opened by the key', async () => {
    begin();
    const other = new Editor('/b.py', ['size']);
    documents.push(other.document);
    offered.push(edit(0, 0, 'size', { uri: 'file:///b.py' }));
    await change();
    expect(bar.get('lspCalib.nextEdit')).toBe('next edit: `size` to `width`, b.py line 1 ●');
    window.showTextDocument.mockImplementation(async () => other);
    await edits.go();
    expect(window.showTextDocument.mock.calls[0]![0]).toBe(other.document);
    expect(other.lines).toEqual(['size']);
  });

  it.each<[string, (one: Editor) => unknown]>([
    ['any further typing', (one) => one.type(2, 0, 'x')],
    ['Escape', () => edits.dismiss()],
    ['the end of the server', () => edits.dispose()],
  ])('goes with %s', async (_what, happens) => {
    begin();
    offered.push(edit(1, 6));
    await change();
    happens(editor);
    expect(editor.drawn).toBeUndefined();
    expect([context('offered'), context('visible')]).toEqual([false, false]);
  });

  it('that is dismissed is told to the server', async () => {
    begin();
    offered.push(edit(1, 6));
    await change();
    edits.dismiss();
    expect(told()).toEqual([{ command: 'lsp-calib.editDismissed', arguments: [{ id: 'edit-1' }] }]);
    expect(editor.lines[1]).toBe('print(size)');
  });

  it('that comes after the next key is not shown', async () => {
    begin();
    let answer: (found: unknown) => void = () => undefined;
    client.sendRequest = vi.fn(() => new Promise((resolve) => (answer = resolve))) as never;
    await change();
    editor.type(1, 0, 'x');
    answer(edit(1, 7));
    await pass(0);
    expect(editor.drawn).toBeUndefined();
    client.sendRequest = send;
  });

  it('of a document that is not open, or of a kind that is not known, is not shown', async () => {
    begin();
    offered.push(edit(0, 0, 'size', { uri: 'file:///c.py' }), { ...edit(1, 6), tier: 'sure' as never });
    await change();
    editor.type(0, 0, 'x');
    await pass(REST_MS);
    expect(asked()).toHaveLength(2);
    expect(context('offered')).toBeUndefined();
  });
});

const send = client.sendRequest;

describe('the keys', () => {
  it('go there, apply it in one step, and go on to the next one', async () => {
    begin();
    offered.push(edit(1, 6), edit(2, 7));
    await change();
    editor.move(3, 0);
    await edits.go();
    expect(editor.selection.active).toEqual(new Position(1, 6));
    expect(editor.lines[1]).toBe('print(size)');
    await edits.go();
    expect(editor.lines[1]).toBe('print(width)');
    expect(editor.steps).toBe(1);
    expect(told()).toEqual([{ command: 'lsp-calib.editApplied', arguments: [{ id: 'edit-1' }] }]);
    expect(asked().at(-1)).toBe('/a.py:1:11'); // from the end of the new text
    expect(editor.selection.active).toEqual(new Position(2, 7));
    expect(editor.drawn?.[0]).toBe('size');
    await edits.go();
    expect(editor.lines[2]).toBe('area = width');
    expect(editor.selection.active).toEqual(new Position(2, 12));
    await pass(2 * REST_MS);
    expect(asked()).toHaveLength(3);
  });

  it('apply at once what is in sight, and go first to what is not', async () => {
    begin();
    offered.push(edit(1, 6), edit(2, 7));
    await change();
    editor.visibleRanges = [new Range(new Position(0, 0), new Position(1, 99))];
    await edits.apply();
    expect(editor.lines.slice(1, 3)).toEqual(['print(width)', 'area = size']);
    editor.move(0, 0);
    await edits.apply();
    expect(editor.lines[2]).toBe('area = size');
    expect(editor.selection.active).toEqual(new Position(2, 7));
  });

  it('do nothing without an edit', async () => {
    begin();
    await edits.go();
    await edits.apply();
    edits.dismiss();
    expect([sent, editor.steps]).toEqual([[], 0]);
  });
});

describe('an insertion', () => {
  it('marks the character behind its place and says between which tokens it goes', async () => {
    begin();
    offered.push(edit(1, 10, '', { text: ', unit', tier: 'review' }));
    await change();
    expect(editor.drawn).toEqual([')', 'underline', '→ size, unit)', '▲ review', 'lspCalib.review']);
  });

  it.each([
    ['size', 'width', '`size` to `width`'],
    ['', ', unit', 'insert `, unit`'],
    [', size', '', 'remove `, size`'],
    ['a'.repeat(30), 'b', `\`${'a'.repeat(23)}…\` to \`b\``],
  ])('has words, as others have: %j to %j', (old, text, words) => expect(editWords(old, text)).toBe(words));

  it('of a removal nothing stands behind the line but its tier', () => expect(previewOf(', size', '', 'f(a, size)', 3)).toBe(''));
});
