import { beforeEach, describe, expect, it, vi } from 'vitest';
import type { ConfigurationChangeEvent } from 'vscode';
import { capabilities, contributes } from '../package.json';
import { initializationOptions, needRestart, ofWorkspace } from '../src/settings';
import { folders, settings } from './mock_vscode';

vi.mock('vscode', async () => await vi.importActual('./mock_vscode'));
beforeEach(() => {
  settings.clear();
  folders.splice(0);
});

interface Property {
  readonly scope: string;
  readonly title: string;
  readonly markdownDescription: string;
  readonly type: unknown;
  readonly order: number;
  readonly tags?: readonly string[];
  readonly enum?: readonly unknown[];
  readonly enumItemLabels?: readonly string[];
  readonly markdownEnumDescriptions?: readonly string[];
}

const change = (key: string) =>
  ({ affectsConfiguration: (asked: string) => `lspCalib.${key}`.startsWith(asked) }) as ConfigurationChangeEvent;

describe('the server is told', () => {
  it('nothing of what is unset', () => {
    settings.set('lspCalib.languages', { globalValue: null });
    settings.set('lspCalib.tiers.preset', { globalValue: null });
    expect(initializationOptions()).toEqual({ trusted: {} });
    expect(ofWorkspace()).toEqual({});
  });

  it('nothing of an empty text, but defaults that are written into settings.json, which go before config.toml', () => {
    settings.set('lspCalib.trusted.model', { globalValue: '' });
    settings.set('lspCalib.trusted.threads', { globalValue: 0 });
    settings.set('lspCalib.languages', { globalValue: ['*'] });
    settings.set('lspCalib.feedback.enabled', { globalValue: true });
    settings.set('lspCalib.inlineCompletion.enabled', { globalValue: true });
    const workspace = { languages: ['*'], 'inlineCompletion.enabled': true };
    expect(initializationOptions()).toEqual({ ...workspace, trusted: { ...workspace, threads: 0, 'feedback.enabled': true } });
  });

  it("all of the user's own values apart, also those that no server knows", () => {
    settings.set('lspCalib.tiers.preset', { globalValue: 'cautious', workspaceValue: 'lenient' });
    settings.set('lspCalib.debounceMs', { globalValue: 40 });
    settings.set('lspCalib.feedback.enabled', { globalValue: false, workspaceValue: true });
    settings.set('lspCalib.trusted.feedback.retentionDays', { globalValue: 30 });
    settings.set('lspCalib.trusted.model', { globalValue: 'mine', workspaceValue: '/its' });
    expect(initializationOptions()).toEqual({
      trusted: { 'tiers.preset': 'cautious', debounceMs: 40, 'feedback.enabled': false, 'feedback.retentionDays': 30, model: 'mine' },
    });
  });

  it('of a workspace only what a workspace may set', () => {
    for (const key of ['tiers.preset', 'hideBelow', 'trusted.model', 'server.path', 'serverPath', 'model', 'ofALaterVersion']) {
      settings.set(`lspCalib.${key}`, { workspaceValue: 'its' });
    }
    settings.set('lspCalib.languages', { globalValue: ['go'], workspaceValue: ['rust'] });
    settings.set('lspCalib.inlineCompletion.enabled', { workspaceValue: false });
    expect(ofWorkspace()).toEqual({ languages: ['rust'], 'inlineCompletion.enabled': false });
    expect(initializationOptions()).toEqual({ ...ofWorkspace(), trusted: { languages: ['go'] } });
  });

  it('nothing of what the extension starts and how it looks', () => {
    settings.set('lspCalib.server.path', { globalValue: '/x' });
    settings.set('lspCalib.badge.number', { globalValue: true });
    expect(initializationOptions()).toEqual({ trusted: {} });
  });

  it('what every folder of the workspace excludes, each pattern once', () => {
    for (const name of ['a', 'b', 'c']) {
      folders.push({ name, uri: { toString: () => `file:///${name}` } });
    }
    const folderValues = { 'file:///a': ['keys/**'], 'file:///b': ['*.csv', 'all/**'], 'file:///c': 'no list' };
    settings.set('lspCalib.exclude', { globalValue: ['mine'], workspaceValue: ['all/**'], folderValues });
    expect(initializationOptions()).toEqual({ exclude: ['all/**', 'keys/**', '*.csv'], trusted: { exclude: ['mine'] } });
  });

  it('a wrong value of `exclude`, which it names', () => {
    settings.set('lspCalib.exclude', { workspaceValue: '*.js' });
    expect(ofWorkspace()).toEqual({ exclude: '*.js' });
  });
});

it.each(['completion.enabled', 'tiers.preset', 'hideBelow', 'window', 'trusted.model', 'server.path'])(
  'starts the server again when %s changes, which it reads only then',
  (key) => expect(needRestart(change(key))).toBe(true),
);

it.each(['exclude', 'inlineCompletion.enabled', 'languages', 'badge.number'])('does not when %s changes', (key) =>
  expect(needRestart(change(key))).toBe(false),
);

describe('package.json', () => {
  const sections = contributes.configuration.map(({ title, properties }) => [title, Object.entries(properties)] as [string, [string, Property][]]);
  const properties = sections.flatMap(([, found]) => found);

  it('has seven settings first, and all in an order, with a title and a field to edit it in', () => {
    expect(sections.map(([title, found]) => [title, found.length])).toEqual([
      ['LSP Calib', 7],
      ['Advanced', properties.length - 7],
    ]);
    for (const [title, found] of sections) {
      expect(found.map(([, { order }]) => order)).toEqual(found.map((_, at) => at + 1));
      expect(new Set(found.map(([, { tags }]) => tags?.[0]))).toEqual(new Set([title === 'Advanced' ? 'advanced' : undefined]));
    }
    expect(new Set(properties.map(([, { title }]) => title)).size).toBe(properties.length);
    // VS Code draws a setting's key and description: the title begins that.
    expect(properties.filter(([, { title, markdownDescription: words }]) => words !== `${title}.` && !words.startsWith(`**${title}.** `))).toEqual([]);
    // VS Code has a field for these types, and for enumerations of them. It leaves others to settings.json.
    const drawn = ['boolean', 'string', 'number', 'integer', 'array', 'number,null', 'integer,null'];
    expect(properties.filter(([, one]) => !one.enum && !drawn.includes(String(one.type)))).toEqual([]);
    for (const [, one] of properties.filter(([, { enum: values }]) => values)) {
      expect([one.enumItemLabels?.length, one.markdownEnumDescriptions?.length]).toEqual([one.enum!.length, one.enum!.length]);
    }
  });

  it('lets only the user choose programs, models, files and hosts', () => {
    const named = properties.filter(([key]) => /\.(server|trusted)\./.test(key));
    expect(named.map(([key]) => key)).toContain('lspCalib.trusted.remote.url');
    expect(new Set(named.map(([, { scope }]) => scope))).toEqual(new Set(['machine']));
  });

  it('offers for a single folder only what counts of each: what is excluded', () => {
    expect(properties.filter(([, { scope }]) => scope === 'resource').map(([key]) => key)).toEqual(['lspCalib.exclude']);
  });

  it('takes from a workspace that is not trusted only what it excludes', () => {
    const free = properties.map(([key]) => key).filter((key) => !capabilities.untrustedWorkspaces.restrictedConfigurations.includes(key));
    expect(free).toEqual(['lspCalib.exclude']);
  });

  it('has each command once, in every place that names one', () => {
    const commands = contributes.commands.map(({ command }) => command);
    expect(new Set(commands).size).toBe(commands.length);
    const named = [
      ...contributes.menus.commandPalette.map(({ command }) => command),
      ...contributes.keybindings.map(({ command }) => command),
      ...Array.from(JSON.stringify(contributes.walkthroughs).matchAll(/command:(lspCalib\.\w+)/g), ([, command]) => command!),
    ];
    expect(named.filter((command) => !commands.includes(command))).toEqual([]);
  });
});
