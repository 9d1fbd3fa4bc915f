import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { ExtensionContext, LogOutputChannel } from 'vscode';
import { beforeEach, describe, expect, it, vi } from 'vitest';
import { Installer } from '../src/install/installer';
import { ask, window } from './mock_vscode';

vi.mock('vscode', async () => await vi.importActual('./mock_vscode'));

// Stands for the environment's Python: what pip would write for a lock, and whether it fails after that.
const PIP = `#!/bin/sh
for last in "$@"; do :; done
case "$last" in *lsp_calib.inference*) echo '{}'; exit 0;; esac # what llama.cpp must be compiled with
name=$(basename "$last")
echo "$name" >> "$0.calls"
test -f "$0.$name" || exit 0
. "$0.$name"
`;
const FETCH_FAILS = 'echo "Collecting anyio"; echo "ERROR: No matching distribution" >&2; exit 1';
const CHANGE_FAILS = 'echo "Collecting anyio"; echo "Installing collected packages: anyio"; sleep 0.2; echo "ERROR: disk full" >&2; exit 1';
const old = { locks: 'old', sha256: 'old', engine: 'prebuilt' };

let python: string;
let receiptFile: string;
let tested: Installer;

const receipt = () => (existsSync(receiptFile) ? (JSON.parse(readFileSync(receiptFile, 'utf8')) as unknown) : undefined);
const calls = () => readFileSync(`${python}.calls`, 'utf8').trim().split('\n');
const pipOn = (name: string, script: string) => writeFileSync(`${python}.${name}`, script);

function environment(receipt: object): void {
  const folder = mkdtempSync(join(tmpdir(), 'lsp-calib-'));
  const [storage, shipped] = [join(folder, 'storage'), join(folder, 'shipped')];
  mkdirSync(join(storage, 'server', 'bin'), { recursive: true });
  mkdirSync(shipped);
  python = join(storage, 'server', 'bin', 'python');
  writeFileSync(python, PIP);
  chmodSync(python, 0o755);
  receiptFile = join(storage, 'server', 'installed.json');
  writeFileSync(receiptFile, JSON.stringify(receipt));
  const sizes = { [`${process.platform}-${process.arch}`]: { server: 1, prebuilt: 1, local: 1, similarity: 1 } };
  const encoder = { name: 'encoder', title: 'Encoder', licence: 'MIT', files: [], bytesWithoutHub: 0, locks: 'e2' };
  const manifest = { version: '2', wheel: 'server.whl', locks: 'new', sha256: 'new', models: [], encoder };
  writeFileSync(join(shipped, 'manifest.json'), JSON.stringify(manifest));
  writeFileSync(join(shipped, 'sizes.json'), JSON.stringify(sizes));
  for (const name of ['server', 'build', 'local', 'prebuilt', 'similarity']) {
    writeFileSync(join(shipped, `${name}.txt`), 'anyio==1 \\\n');
  }
  const context = { globalStorageUri: { fsPath: storage }, asAbsolutePath: () => shipped };
  const log = { info: () => undefined, error: () => undefined };
  tested = new Installer(context as unknown as ExtensionContext, log as unknown as LogOutputChannel);
}

describe.skipIf(process.platform === 'win32')('an update that needs newer packages', () => {
  beforeEach(() => {
    vi.clearAllMocks();
    ask.mockResolvedValue('Update');
    environment(old);
  });

  it('changes nothing before the answer, and is asked for once', async () => {
    ask.mockResolvedValue(undefined);
    await tested.update();
    expect(await tested.offerUpdate()).toBe(false);
    expect(await tested.offerUpdate()).toBe(false);
    expect(ask).toHaveBeenCalledOnce();
    expect(existsSync(`${python}.calls`)).toBe(false);
    expect(tested.program).toBeDefined();
  });

  it('is signed when all is there', async () => {
    expect(await tested.offerUpdate()).toBe(true);
    expect(calls()).toEqual(['prebuilt.txt', 'server.whl']);
    expect(receipt()).toEqual({ locks: 'new', sha256: 'new', engine: 'prebuilt' });
    expect(await tested.offerUpdate()).toBe(false);
  });

  it('leaves the server that worked where nothing can be fetched, and can be tried again', async () => {
    pipOn('prebuilt.txt', FETCH_FAILS);
    expect(await tested.offerUpdate()).toBe(false);
    expect(receipt()).toEqual(old);
    expect(window.showErrorMessage).toHaveBeenCalledOnce();
    pipOn('prebuilt.txt', 'exit 0');
    expect(await tested.offerUpdate()).toBe(true);
  });

  it('leaves it where llama.cpp alone cannot be fetched', async () => {
    environment({ ...old, engine: 'local' });
    pipOn('server.txt', 'echo "Installing collected packages: anyio"');
    pipOn('build.txt', 'echo "Installing collected packages: cmake"');
    pipOn('local.txt', FETCH_FAILS);
    pipOn('prebuilt.txt', FETCH_FAILS);
    expect(await tested.offerUpdate()).toBe(false);
    expect(calls()).toEqual(['server.txt', 'server.whl', 'build.txt', 'local.txt', 'prebuilt.txt']);
    expect(receipt()).toEqual({ ...old, engine: 'local' });
  });

  it('brings those of the encoder where it is installed, after the server', async () => {
    environment({ ...old, similarity: 'e1' });
    expect(await tested.offerUpdate()).toBe(true);
    expect(calls()).toEqual(['prebuilt.txt', 'server.whl', 'similarity.txt']);
    expect(receipt()).toEqual({ locks: 'new', sha256: 'new', engine: 'prebuilt', similarity: 'e2' });
  });

  it('is asked for where those of the encoder alone are newer, and stands without them', async () => {
    environment({ ...old, locks: 'new', similarity: 'e1' });
    pipOn('similarity.txt', FETCH_FAILS);
    await tested.update();
    expect(existsSync(`${python}.calls`)).toBe(false);
    expect(await tested.offerUpdate()).toBe(true);
    expect(ask.mock.lastCall![0]).toContain("the encoder's packages (up to 1 MB)");
    expect(receipt()).toEqual({ locks: 'new', sha256: 'new', engine: 'prebuilt' });
    expect(window.showErrorMessage).toHaveBeenCalledOnce();
  });

  it('is not asked for where the Python is gone that the server was installed with', async () => {
    expect(tested.lacksPython).toBe(false);
    rmSync(python);
    await tested.update();
    expect(await tested.offerUpdate()).toBe(false);
    expect(ask).not.toHaveBeenCalled();
    expect(window.showErrorMessage).not.toHaveBeenCalled();
    expect(tested.lacksPython).toBe(true);
  });

  it('has no server where it failed while packages were replaced', async () => {
    pipOn('prebuilt.txt', CHANGE_FAILS);
    expect(await tested.offerUpdate()).toBe(false);
    expect(receipt()).toBeUndefined();
    expect(tested.program).toBeUndefined();
  });
});

it.skipIf(process.platform === 'win32')('an update with the same packages asks nothing', async () => {
  vi.clearAllMocks();
  environment({ ...old, locks: 'new' });
  await tested.update();
  expect(await tested.offerUpdate()).toBe(false);
  expect(ask).not.toHaveBeenCalled();
  expect(calls()).toEqual(['server.whl']);
  expect(receipt()).toEqual({ locks: 'new', sha256: 'new', engine: 'prebuilt' });

  environment({ ...old, locks: 'new', similarity: 'e2' });
  await tested.update();
  expect(receipt()).toEqual({ locks: 'new', sha256: 'new', engine: 'prebuilt', similarity: 'e2' });
});
