import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { ExtensionContext, LogOutputChannel } from 'vscode';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { Installer } from '../src/install/installer';
import { ask, settings, window } from './mock_vscode';

vi.mock('vscode', async () => await vi.importActual('./mock_vscode'));

// Stands for the Python that environments are made with; its `.pip` and `.server` become programs of the environment.
const PYTHON = `#!/bin/sh
case "$*" in *venv*) ;; *) echo '[[3, 12, 1], true]'; exit 0;; esac
case "$*" in *ensurepip*) echo '[[3, 12, 1], true]'; exit 0;; esac
for last in "$@"; do :; done
echo made >> "$0.calls"
mkdir -p "$last/bin" && cp "$0.pip" "$last/bin/python" && cp "$0.server" "$last/bin/lsp-calib"
`;
const PIP = '#!/bin/sh\necho {}\n';
const model = { name: 'small', title: 'Small', licence: 'MIT', file: 's.gguf', bytes: 3, code: false };

let python: string;
let home: string;
let storage: string;
let tested: Installer;

function program(path: string, text: string): void {
  writeFileSync(path, text);
  chmodSync(path, 0o755);
}

/** What `lsp-calib models pull` does in an environment that is made from now on. */
function pulling(commands: string): void {
  program(`${python}.server`, `#!/bin/sh\necho "$2" >> "${python}.calls"\n${commands}\n`);
}

const calls = () => (existsSync(`${python}.calls`) ? readFileSync(`${python}.calls`, 'utf8').trim().split('\n') : []);
const makeWay = vi.fn(async () => undefined);
const said = () => ask.mock.calls.map(([message]) => message);

beforeEach(() => {
  vi.clearAllMocks();
  settings.clear();
  const folder = mkdtempSync(join(tmpdir(), 'lsp-calib-'));
  const shipped = join(folder, 'shipped');
  home = join(folder, 'home');
  storage = join(folder, 'storage');
  mkdirSync(shipped);
  python = join(folder, 'python');
  program(python, PYTHON);
  program(`${python}.pip`, PIP);
  settings.set('lspCalib.server.python', { globalValue: python });
  vi.stubEnv('LSP_CALIB_HOME', home);
  const sizes = { [`${process.platform}-${process.arch}`]: { server: 1, prebuilt: 1, local: 1 } };
  const manifest = { version: '2', wheel: 'server.whl', locks: 'new', sha256: 'new', models: [model] };
  writeFileSync(join(shipped, 'manifest.json'), JSON.stringify(manifest));
  writeFileSync(join(shipped, 'sizes.json'), JSON.stringify(sizes));
  for (const name of ['server', 'build', 'local', 'prebuilt']) {
    writeFileSync(join(shipped, `${name}.txt`), 'anyio==1 \\\n');
  }
  const context = { globalStorageUri: { fsPath: storage }, asAbsolutePath: () => shipped };
  const log = { info: () => undefined, error: () => undefined };
  tested = new Installer(context as unknown as ExtensionContext, log as unknown as LogOutputChannel);
  ask.mockImplementation(async (_message, _options, first) => first);
});

afterEach(() => void vi.unstubAllEnvs());

describe.skipIf(process.platform === 'win32')('an installation', () => {
  it('without its model is a server all the same, and the next one fetches the model alone', async () => {
    pulling('exit 1');
    expect(await tested.offer(makeWay)).toBe(true);
    expect(window.showErrorMessage).toHaveBeenCalledOnce();
    expect(tested.program).toBeDefined();
    expect(calls()).toEqual(['made', 'pull']);

    program(join(storage, 'server', 'bin', 'lsp-calib'), `#!/bin/sh\necho "again: $2" >> "${python}.calls"\n`);
    expect(await tested.offer(makeWay)).toBe(true);
    expect(calls()).toEqual(['made', 'pull', 'again: pull']);
    expect(makeWay, 'the server goes on meanwhile').toHaveBeenCalledOnce();
  });

  it('makes way for its files first, and not before the answer', async () => {
    pulling('exit 0');
    ask.mockResolvedValueOnce(undefined);
    expect(await tested.offer(makeWay)).toBe(false);
    expect(makeWay).not.toHaveBeenCalled();
    makeWay.mockImplementationOnce(async () => void expect(calls()).toEqual([]));
    expect(await tested.offer(makeWay)).toBe(true);
    expect(makeWay).toHaveBeenCalledOnce();
  });

  it('leaves what is there where the answer is no, and can be had again', async () => {
    pulling('exit 0');
    await tested.offer(makeWay);
    mkdirSync(join(home, 'models'), { recursive: true });
    writeFileSync(join(home, 'models', model.file), '123');
    ask.mockClear();
    ask.mockResolvedValueOnce(undefined);
    expect(await tested.offer(makeWay)).toBe(false);
    expect(said()).toEqual(['The server and a model are installed already.']);
    expect(calls()).toEqual(['made', 'pull']);
    expect(await tested.offer(makeWay)).toBe(true);
    expect(calls()).toEqual(['made', 'pull', 'made']);
  });

  it('is made anew, after the usual question, where its Python is gone', async () => {
    pulling('exit 0');
    await tested.offer(makeWay);
    rmSync(join(storage, 'server', 'bin', 'python'));
    ask.mockClear();
    await tested.offer(makeWay);
    expect(said()).toEqual([expect.stringContaining('Install them?')]);
    expect(calls()).toEqual(['made', 'pull', 'made', 'pull']);
  });
});
