import { describe, expect, it } from 'vitest';
import { delimiter, join, resolve } from 'node:path';
import { findServer, onPath } from '../src/server/find';
import { isInstalled, partialBytes, stateFolder } from '../src/server/state_folder';
import { Restarts } from '../src/server/restarts';
import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { homedir, tmpdir } from 'node:os';

const bin = resolve('/usr/bin');
const there = (...paths: string[]) => (path: string) => paths.includes(path);
const environment = { PATH: ['.', '', 'relative', bin].join(delimiter), PATHEXT: '' };

describe('the server is', () => {
  const own = resolve('/storage/bin/lsp-calib');
  const program = join(bin, 'lsp-calib');

  it("the user's choice, and nothing else if that is missing", () => {
    expect(findServer({ configured: program, own, environment }, there(program, own))).toEqual({ program });
    expect(findServer({ configured: 'lsp-calib', own, environment }, there(program, own))).toEqual({ program });
    expect(findServer({ configured: '/gone', own, environment }, there(program, own))).toEqual({ program: undefined, missing: '/gone' });
  });

  it('else the one of the extension, else one on the PATH, else none', () => {
    expect(findServer({ configured: '', own, environment }, there(program, own))).toEqual({ program: own });
    expect(findServer({ configured: '', own, environment }, there(program))).toEqual({ program });
    expect(findServer({ configured: '', own: undefined, environment }, there())).toEqual({ program: undefined, missing: '' });
  });

  it('never in a folder with a relative name, which would be the workspace', () => {
    expect(onPath('lsp-calib', environment, (path) => !path.startsWith(bin))).toBeUndefined();
    expect(onPath('lsp-calib', {}, () => true)).toBeUndefined();
  });
});

describe('the state folder', () => {
  it('is LSP_CALIB_HOME if that is absolute, else the platform’s', () => {
    const home = resolve('/my/home');
    expect(stateFolder({ LSP_CALIB_HOME: home }, 'linux')).toBe(home);
    expect(stateFolder({ LSP_CALIB_HOME: 'relative' }, 'linux')).toBe(join(homedir(), '.local', 'share', 'lsp-calib'));
    expect(stateFolder({ LSP_CALIB_HOME: '~/x' }, 'linux')).toBe(join(homedir(), 'x'));
    expect(stateFolder({ XDG_DATA_HOME: home }, 'linux')).toBe(join(home, 'lsp-calib'));
    expect(stateFolder({ LOCALAPPDATA: home }, 'win32')).toBe(join(home, 'lsp-calib'));
    expect(stateFolder({}, 'darwin')).toBe(join(homedir(), 'Library', 'Application Support', 'lsp-calib'));
  });

  it('tells whole models from those that are being fetched', () => {
    const folder = mkdtempSync(join(tmpdir(), 'lsp-calib-'));
    const model = { file: 'a.gguf', bytes: 3 };
    expect(isInstalled(folder, model)).toBe(false);
    expect(partialBytes(folder)).toBe(0);
    mkdirSync(join(folder, 'models', '.pull-abc'), { recursive: true });
    writeFileSync(join(folder, 'models', 'a.gguf'), '12');
    writeFileSync(join(folder, 'models', '.pull-a.gguf.part'), '12');
    writeFileSync(join(folder, 'models', '.pull-abc', 'b.whl'), '123');
    expect(isInstalled(folder, model)).toBe(false);
    expect(partialBytes(folder)).toBe(5);
    writeFileSync(join(folder, 'models', 'a.gguf'), '123');
    expect(isInstalled(folder, model)).toBe(true);
  });
});

it('a server that dies is started again four times in three minutes, and again later', () => {
  const restarts = new Restarts();
  expect([0, 1, 2, 3, 4].map((second) => restarts.another(1000 * second))).toEqual([true, true, true, true, false]);
  expect(restarts.another(1_000_000)).toBe(true);
});
