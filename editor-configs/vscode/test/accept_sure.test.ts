import { expect, it, vi } from 'vitest';
import { BadgeView } from '../src/badge';
import { commands, Position } from './mock_vscode';

vi.mock('vscode', async () => await vi.importActual('./mock_vscode'));

// An explicit request would ask for several suggestions, and show what is hidden: the user asked for neither.
it.each([true, false])('the rest of the line is requested again only where the part went in: %s', async (done) => {
  const position = new Position(0, 2);
  const before = {};
  const editor = { document: { lineAt: () => ({ text: '  ' }) }, selection: before, edit: vi.fn(async () => done) };
  const sure = { text: 'count + other', tier: 'review', sure: { end: 5, confidence: 0.9 } };
  const view = new BadgeView(() => undefined);
  Object.assign(view, { shown: { editor, version: 1, position, start: 2, behind: '', offers: [{ suggestion: sure }] } });
  commands.executeCommand.mockClear();
  expect(await view.acceptSure()).toBe(done);
  expect(commands.executeCommand.mock.calls).toEqual(
    done ? [['editor.action.inlineSuggest.trigger', { explicit: false }]] : [],
  );
  expect(editor.selection === before).toBe(!done);
});
