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
echo made >> "$LSP_CALIB_HOME.calls"
mkdir -p "$last/bin" && cp "$0.pip" "$last/bin/python" && cp "$0.server" "$last/bin/lsp-calib"
`;
const PIP = `#!/bin/sh
echo {}
case "$*" in *similarity.txt)
  echo similarity >> "$LSP_CALIB_HOME.calls"
  echo 'Installing collected packages: onnxruntime'
  test ! -f "$LSP_CALIB_HOME.fails";;
esac
`;
const model = { name: 'small', title: 'Small', licence: 'MIT', file: 's.gguf', bytes: 3, code: false };

const encoder = {
  name: 'encoder', title: 'Encoder', licence: 'MIT', bytesWithoutHub: 9, locks: 'e',
  files: [{ file: 'e.onnx', bytes: 3 }, { file: 'e.json', bytes: 2 }],
};

let python: string;
let home: string;
let storage: string;
let shipped: string;
let tested: Installer;

function program(path: string, text: string): void {
  writeFileSync(path, text);
  chmodSync(path, 0o755);
}

/** What `lsp-calib models pull` does in an environment that is made from now on. */
function pulling(commands: string): void {
  program(`${python}.server`, `#!/bin/sh\necho "$2 $3" >> "$LSP_CALIB_HOME.calls"\n${commands}\n`);
}

const calls = () => (existsSync(`${home}.calls`) ? readFileSync(`${home}.calls`, 'utf8').trim().split('\n') : []);
/** What the extension carries. similarity: the size of the encoder's packages; undefined where it has none for this platform. */
function carry(models: object[], similarity?: number): void {
  const sizes = { [`${process.platform}-${process.arch}`]: { server: 1, prebuilt: 1, local: 1, similarity } };
  const manifest = { version: '2', wheel: 'server.whl', locks: 'new', sha256: 'new', models, encoder };
  writeFileSync(join(shipped, 'manifest.json'), JSON.stringify(manifest));
  writeFileSync(join(shipped, 'sizes.json'), JSON.stringify(sizes));
  const context = { globalStorageUri: { fsPath: storage }, asAbsolutePath: () => shipped };
  const log = { info: () => undefined, error: () => undefined };
  tested = new Installer(context as unknown as ExtensionContext, log as unknown as LogOutputChannel);
}

function inModels(file: string, text: string): void {
  mkdirSync(join(home, 'models'), { recursive: true });
  writeFileSync(join(home, 'models', file), text);
}

/** Chooses the answer that has these words, of a question or a list of choices. */
const choose = (words: string) => async (_message: string, _options: unknown, ...answers: unknown[]) =>
  answers.find((answer) => `${answer as string}`.includes(words));

const makeWay = vi.fn(async () => undefined);
const said = () => ask.mock.calls.map(([message]) => message);

beforeEach(() => {
  vi.clearAllMocks();
  settings.clear();
  const folder = mkdtempSync(join(tmpdir(), 'lsp-calib-'));
  shipped = join(folder, 'shipped');
  home = join(folder, 'home');
  storage = join(folder, 'storage');
  mkdirSync(shipped);
  python = join(folder, 'python');
  program(python, PYTHON);
  program(`${python}.pip`, PIP);
  settings.set('lspCalib.server.python', { globalValue: python });
  vi.stubEnv('LSP_CALIB_HOME', home);
  for (const name of ['server', 'build', 'local', 'prebuilt', 'similarity']) {
    writeFileSync(join(shipped, `${name}.txt`), 'anyio==1 \\\n');
  }
  carry([model]);
  ask.mockImplementation(async (_message, _options, first) => first);
});

afterEach(() => void vi.unstubAllEnvs());

describe.skipIf(process.platform === 'win32')('an installation', () => {
  it('without its model is a server all the same, and the next one fetches the model alone', async () => {
    pulling('exit 1');
    expect(await tested.offer(makeWay)).toBe(true);
    expect(window.showErrorMessage).toHaveBeenCalledOnce();
    expect(tested.program).toBeDefined();
    expect(calls()).toEqual(['made', 'pull small']);

    program(join(storage, 'server', 'bin', 'lsp-calib'), `#!/bin/sh\necho "again: $2 $3" >> "${home}.calls"\n`);
    expect(await tested.offer(makeWay)).toBe(true);
    expect(calls()).toEqual(['made', 'pull small', 'again: pull small']);
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
    inModels(model.file, '123');
    ask.mockClear();
    ask.mockResolvedValueOnce(undefined);
    expect(await tested.offer(makeWay)).toBe(false);
    expect(said()).toEqual(['The server and a model are installed already.']);
    expect(calls()).toEqual(['made', 'pull small']);
    expect(await tested.offer(makeWay)).toBe(true);
    expect(calls()).toEqual(['made', 'pull small', 'made']);
  });

  it('is made anew, after the usual question, where its Python is gone', async () => {
    pulling('exit 0');
    await tested.offer(makeWay);
    rmSync(join(storage, 'server', 'bin', 'python'));
    ask.mockClear();
    await tested.offer(makeWay);
    expect(said()).toEqual([expect.stringContaining('Install them?')]);
    expect(calls()).toEqual(['made', 'pull small', 'made', 'pull small']);
  });
});

describe.skipIf(process.platform === 'win32')('the encoder', () => {
  const labels = () => ask.mock.lastCall!.slice(2);

  it('is fetched with the model where that was chosen, and nothing before', async () => {
    pulling('exit 0');
    carry([model], 4);
    ask.mockImplementation(async (message, options, ...answers) => {
      expect(calls()).toEqual([]);
      return choose('the encoder')(message, options, ...answers);
    });
    expect(await tested.offer(makeWay)).toBe(true);
    expect(labels()).toEqual(['With Small (1 MB)', 'With Small and the encoder (1 MB)']);
    expect(calls()).toEqual(['made', 'pull small', 'similarity', 'pull encoder']);
    expect(tested.environment.receipt()).toMatchObject({ sha256: 'new', similarity: 'e' });
  });

  it('is not fetched where it was not chosen, and can be had later, alone', async () => {
    pulling('exit 0');
    carry([model], 4);
    await tested.offer(makeWay);
    expect(calls()).toEqual(['made', 'pull small']);
    inModels(model.file, '123');
    makeWay.mockClear();
    ask.mockImplementation(choose('Fetch the encoder'));
    expect(await tested.offer(makeWay), 'the server starts again with it').toBe(true);
    expect(said().at(-1)).toContain('Fetch the encoder too?');
    expect(calls()).toEqual(['made', 'pull small', 'similarity', 'pull encoder']);
    expect(makeWay, 'the server goes on meanwhile').not.toHaveBeenCalled();
    encoder.files.forEach(({ file, bytes }) => inModels(file, '1'.repeat(bytes)));
    await tested.offer(makeWay);
    expect(labels(), 'all of it is there').toEqual(['Install again…']);
  });

  it('that was pulled already needs its packages alone', async () => {
    pulling('exit 0');
    carry([model], 4);
    encoder.files.forEach(({ file, bytes }) => inModels(file, '1'.repeat(bytes)));
    await tested.offer(makeWay);
    const [, options] = ask.mock.lastCall! as [string, { detail: string }];
    expect(options.detail).toContain('optional: the encoder');
    expect(options.detail).not.toContain('of files');
  });

  it('has one button beside several models, and a list behind it', async () => {
    pulling('exit 0');
    carry([model, { ...model, name: 'large', title: 'Large' }], 4);
    ask.mockImplementation(choose('With the encoder too'));
    expect(await tested.offer(makeWay), 'the list was closed').toBe(false);
    expect(calls()).toEqual([]);
    expect(labels()).toEqual(['With Small (1 MB)', 'With Large (1 MB)', 'With the encoder too…']);
    window.showQuickPick.mockImplementationOnce(async (items) => items[1]);
    expect(await tested.offer(makeWay)).toBe(true);
    expect(calls()).toEqual(['made', 'pull large', 'similarity', 'pull encoder']);
  });

  it('that cannot be had leaves the server and the model, and is offered again', async () => {
    pulling('exit 0');
    carry([model], 4);
    writeFileSync(`${home}.fails`, '');
    ask.mockImplementation(choose('the encoder'));
    expect(await tested.offer(makeWay)).toBe(true);
    expect(window.showErrorMessage).toHaveBeenCalledOnce();
    expect(tested.program).toBeDefined();
    expect(calls()).toEqual(['made', 'pull small', 'similarity']);
    rmSync(`${home}.fails`);
    expect(await tested.offer(makeWay)).toBe(true);
    expect(calls().slice(3)).toEqual(['similarity', 'pull encoder']);
  });

  it('is not offered where it has no packages for the platform', async () => {
    pulling('exit 0');
    await tested.offer(makeWay);
    await tested.offer(makeWay);
    expect(ask.mock.calls.flat().join()).not.toContain('encoder');
  });
});
