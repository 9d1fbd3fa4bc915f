import { expect, it, vi } from 'vitest';
import { BadgeView } from '../src/badge';
import { commands } from './mock_vscode';

vi.mock('vscode', async () => {
  class Position {
    constructor(
      readonly line: number,
      readonly character: number,
    ) {}
    translate(lines: number, characters: number) {
      return new Position(this.line + lines, this.character + characters);
    }
  }
  class Range {
    constructor(
      readonly start: Position,
      readonly end: Position,
    ) {}
  }
  const mock = await vi.importActual<typeof import('./mock_vscode')>('./mock_vscode');
  const nothing = { dispose: () => undefined };
  const listen = () => nothing;
  return {
    ...mock,
    Position,
    Range,
    Selection: Range,
    DecorationRangeBehavior: { ClosedClosed: 1 },
    Disposable: { from: listen },
    window: {
      createTextEditorDecorationType: listen,
      onDidChangeTextEditorSelection: listen,
      onDidChangeActiveTextEditor: listen,
    },
    workspace: { ...mock.workspace, onDidChangeTextDocument: listen },
  };
});

// An explicit request would ask for several suggestions, and show what is hidden: the user asked for neither.
it.each([true, false])('the rest of the line is requested again only where the part went in: %s', async (done) => {
  const { Position } = (await import('vscode')) as unknown as { Position: new (line: number, at: number) => object };
  const position = new Position(0, 2);
  const before = {};
  const editor = { document: { getText: () => '' }, selection: before, edit: vi.fn(async () => done) };
  const sure = { text: 'count + other', tier: 'review', sure: { end: 5, confidence: 0.9 } };
  const view = new BadgeView(() => undefined);
  Object.assign(view, { shown: { editor, version: 1, position, suggestions: [sure], first: {} } });
  commands.executeCommand.mockClear();
  expect(await view.acceptSure()).toBe(done);
  expect(commands.executeCommand.mock.calls).toEqual(
    done ? [['editor.action.inlineSuggest.trigger', { explicit: false }]] : [],
  );
  expect(editor.selection === before).toBe(!done);
});
