import { beforeEach, expect, it, vi } from 'vitest';
import type { ConfigurationChangeEvent } from 'vscode';
import { initializationOptions, needRestart } from '../src/settings';
import { settings } from './mock_vscode';

vi.mock('vscode', async () => await vi.importActual('./mock_vscode'));
beforeEach(() => settings.clear());

const change = (key: string) =>
  ({ affectsConfiguration: (asked: string) => `lspCalib.${key}`.startsWith(asked) }) as ConfigurationChangeEvent;

it("tells the server the user's own values beside the workspace's", () => {
  settings.set('lspCalib.feedback.replay', { globalValue: false, workspaceValue: true });
  settings.set('lspCalib.exclude', { globalValue: ['mine'], workspaceValue: ['its'] });
  expect(initializationOptions()).toEqual({
    feedback: { replay: true },
    exclude: ['its'],
    trusted: { 'feedback.replay': false, exclude: ['mine'] },
  });
});

it.each(['exclude', 'completion.enabled', 'feedback.replay', 'tiers.overrides', 'trusted.model', 'server.path'])(
  'starts the server again when %s changes, which it reads only then',
  (key) => expect(needRestart(change(key))).toBe(true),
);

it.each(['hideBelow', 'debounceMs', 'inlineCompletion.enabled', 'feedback.enabled', 'tiers.preset'])(
  'does not when %s changes, which it reads at any time',
  (key) => expect(needRestart(change(key))).toBe(false),
);
