import { describe, expect, it } from 'vitest';
import { contributes, capabilities } from '../package.json';
import { forServer, initializationOptions, pruned } from '../src/settings_values';

describe('the server is told', () => {
  it('nothing of what is unset', () => {
    expect(pruned({ a: null, b: { c: null }, d: { e: 1, f: null }, g: [], h: false })).toEqual({ d: { e: 1 }, g: [], h: false });
    expect(forServer('lspCalib', { a: null })).toEqual({});
    expect(forServer('lspCalib', undefined)).toEqual({});
  });

  it('nothing through workspace/configuration that names a program, a file or a host', () => {
    const all = { server: { path: '/x' }, serverPath: '/x', trusted: { model: '/x' }, tiers: { preset: 'lenient' } };
    expect(forServer('lspCalib', all)).toEqual({ tiers: { preset: 'lenient' } });
    for (const section of ['server', 'server.path', 'serverPath', 'trusted', 'trusted.remote.url']) {
      expect(forServer(`lspCalib.${section}`, '/x')).toBeNull();
    }
    expect(forServer('lspCalib.tiers', { preset: 'lenient' })).toEqual({ preset: 'lenient' });
  });

  it('nothing of what the badge looks like', () => {
    expect(forServer('lspCalib', { badge: { number: true } })).toEqual({});
    expect(forServer('lspCalib.badge.number', true)).toBeNull();
  });

  it("the user's own values apart from what the workspace says", () => {
    const all = { exclude: ['of-the-workspace'], trusted: { model: '/of-the-workspace' } };
    expect(initializationOptions(all, { model: 'mine', threads: null }, { exclude: ['mine'] })).toEqual({
      exclude: ['of-the-workspace'],
      trusted: { model: 'mine', exclude: ['mine'] },
    });
    expect(initializationOptions(undefined, {}, {})).toEqual({ trusted: {} });
  });
});

describe('package.json', () => {
  const properties = Object.entries(contributes.configuration.properties) as [string, { scope: string }][];

  it('lets only the machine choose programs, models, files and hosts', () => {
    const ofTheMachine = properties.filter(([, { scope }]) => scope === 'machine').map(([key]) => key);
    expect(ofTheMachine).toContain('lspCalib.trusted.remote.url');
    expect(properties.filter(([key, { scope }]) => /\.(server|serverPath|trusted)(\.|$)/.test(key) && scope !== 'machine')).toEqual([]);
  });

  it('offers for a single folder only what counts of each: what is excluded', () => {
    expect(properties.filter(([, { scope }]) => scope === 'resource').map(([key]) => key)).toEqual(['lspCalib.exclude']);
    expect(new Set(properties.map(([, { scope }]) => scope))).toEqual(new Set(['machine', 'resource', 'window']));
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
