import { beforeEach, expect, it, vi } from 'vitest';
import type { ConfigurationChangeEvent } from 'vscode';
import { initializationOptions, needRestart } from '../src/settings';
import { folders, settings, trust } from './mock_vscode';

vi.mock('vscode', async () => await vi.importActual('./mock_vscode'));
beforeEach(() => {
  settings.clear();
  folders.splice(0);
  trust.given = true;
});

const change = (key: string) =>
  ({ affectsConfiguration: (asked: string) => `lspCalib.${key}`.startsWith(asked) }) as ConfigurationChangeEvent;

it("tells the server the user's own values beside the workspace's", () => {
  settings.set('lspCalib.feedback.enabled', { globalValue: false, workspaceValue: true });
  settings.set('lspCalib.exclude', { globalValue: ['mine'], workspaceValue: ['its'] });
  expect(initializationOptions()).toEqual({
    feedback: { enabled: true },
    exclude: ['its'],
    trusted: { 'feedback.enabled': false, exclude: ['mine'] },
  });
});

it.each([
  ['tiers.acceptFrom', 0.9, 0],
  ['tiers.preset', 'cautious', 'lenient'],
  ['diagnostics.severity.reject', 'error', 'off'],
  ['hideBelow', 0.3, 0.01],
])("tells the server the user's own %s, which a workspace can only make stricter", (key, mine, its) => {
  settings.set(`lspCalib.${key}`, { globalValue: mine, workspaceValue: its });
  expect(initializationOptions()).toMatchObject({ trusted: { [key]: mine } });
  settings.set(`lspCalib.${key}`, { workspaceValue: its });
  expect((initializationOptions() as { trusted: object }).trusted).toEqual({});
});

it('tells the server what every folder of the workspace excludes, each pattern once', () => {
  for (const name of ['a', 'b', 'c']) {
    folders.push({ name, uri: { toString: () => `file:///${name}` } });
  }
  const folderValues = { 'file:///a': ['keys/**'], 'file:///b': ['*.csv', 'all/**'], 'file:///c': 'no list' };
  settings.set('lspCalib.exclude', { globalValue: ['mine'], workspaceValue: ['all/**'], folderValues });
  expect(initializationOptions()).toEqual({
    exclude: ['all/**', 'keys/**', '*.csv'],
    trusted: { exclude: ['mine'] },
  });
});

it('leaves a wrong value of `exclude` for the server to name', () => {
  settings.set('lspCalib.exclude', { workspaceValue: '*.js' });
  expect(initializationOptions()).toMatchObject({ exclude: '*.js' });
});

it('takes from a workspace that is not trusted only what it excludes, whatever VS Code lets through', () => {
  trust.given = false;
  settings.set('lspCalib.debounceMs', { globalValue: 40, workspaceValue: 0 });
  settings.set('lspCalib.modelIdleSeconds', { globalValue: 60, workspaceValue: 3600 });
  settings.set('lspCalib.ofALaterVersion', { workspaceValue: true });
  settings.set('lspCalib.exclude', { globalValue: ['mine'], workspaceValue: ['its'] });
  expect(initializationOptions()).toEqual({
    debounceMs: 40,
    exclude: ['its'],
    trusted: { exclude: ['mine'], modelIdleSeconds: 60 },
  });
});

it.each(['exclude', 'completion.enabled', 'feedback.enabled', 'tiers.preset', 'hideBelow', 'trusted.model', 'server.path'])(
  'starts the server again when %s changes, which it reads only then',
  (key) => expect(needRestart(change(key))).toBe(true),
);

it.each(['debounceMs', 'inlineCompletion.enabled', 'languages', 'window'])(
  'does not when %s changes, which it reads at any time',
  (key) => expect(needRestart(change(key))).toBe(false),
);
