import { describe, expect, it } from 'vitest';
import { existsSync, mkdtempSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { choices, encoderChoices, fetches, megabytes, question, thereQuestion, updateQuestion, type Plan } from '../src/install/plan';
import { Cancelled, ProgramError, run, type Options } from '../src/install/process';
import { advice, findPython, judge } from '../src/install/python';

const models = [
  { name: 'large', title: 'Large', licence: 'Apache-2.0', file: 'l.gguf', bytes: 1_117_320_768, code: true },
  { name: 'small', title: 'Small', licence: 'MIT', file: 's.gguf', bytes: 98_362_432, code: false },
];
const sizes = { server: 22_100_000, prebuilt: 33_900_000, local: 107_700_000 };
const plan: Plan = { python: 'Python 3.11.7', engine: 'local', sizes, installed: undefined, models, encoder: undefined };
const encoder = { name: 'e', title: 'Encoder', licence: 'MIT', files: [], bytesWithoutHub: 106_400_000, locks: '' };
const offer = { encoder, packages: 38_400_000, files: 23_400_000 };

describe('the question', () => {
  it('names everything that may be fetched, with its size', () => {
    const { detail } = question(plan);
    for (const part of ['23 MB', '108 MB', '34 MB', 'Large (Apache-2.0): 1.2 GB', 'Small (MIT): 99 MB', 'Python 3.11.7']) {
      expect(detail).toContain(part);
    }
    expect(question({ ...plan, engine: 'prebuilt' }).detail).not.toContain('108 MB');
  });

  it('is answered by choosing a model, with the sum of what that fetches', () => {
    expect(choices(plan).map(({ label }) => label)).toEqual(['With Large (1.3 GB)', 'With Small (229 MB)']);
    expect(choices(plan).map(({ model }) => model?.name)).toEqual(['large', 'small']);
  });

  it('offers no model where one is there', () => {
    const there = { ...plan, engine: 'prebuilt', installed: 'Small' } as const;
    expect(choices(there)).toEqual([{ label: 'Install (56 MB)', model: undefined }]);
    expect(question(there).detail).toContain('Small is there already');
    expect(question(there).detail).not.toContain('GB');
  });

  it('names the encoder as a choice, and sums it up where it is chosen', () => {
    const rated = { ...plan, encoder: offer };
    const said = '• optional: the encoder Encoder (MIT), which rates how well a summary fits its code: 39 MB of packages, 24 MB of files (107 MB where';
    expect(question(rated).detail).toContain(said);
    expect(choices(rated)).toEqual(choices(plan));
    expect(encoderChoices(rated).map(({ label }) => label)).toEqual([
      'With Large and the encoder (1.4 GB)',
      'With Small and the encoder (290 MB)',
    ]);
    expect(encoderChoices({ ...rated, installed: 'Small' }).map(({ label }) => label)).toEqual(['Install with the encoder (192 MB)']);
    expect(encoderChoices(rated).map(({ encoder }) => encoder?.name)).toEqual(['e', 'e']);
  });

  it('says nothing of the encoder where there is none to fetch', () => {
    expect(encoderChoices(plan)).toEqual([]);
    expect(question(plan).detail).not.toContain('encoder');
  });

  it('names of the encoder only what is missing', () => {
    const { detail } = question({ ...plan, encoder: { ...offer, files: 0 } });
    expect(detail).toContain('39 MB of packages');
    expect(detail).not.toContain('of files');
  });

  it('of an update names its packages where they are newer', () => {
    expect(updateQuestion({ ...plan, encoder: offer }).detail).toContain(", llama.cpp (up to 108 MB) and the encoder's packages (up to 39 MB), from");
    expect(updateQuestion({ ...plan, encoder: { ...offer, packages: 0 } }).detail).toContain(' and llama.cpp (up to 108 MB), from');
  });

  it('never understates a size', () => {
    expect(megabytes(1_000_001)).toBe('2 MB');
    expect(megabytes(1_117_320_768)).toBe('1.2 GB');
    expect(megabytes(999_500_000)).toBe('1.0 GB');
  });
});

describe('the question where the server is there', () => {
  it('names the models that can be fetched, each with its size', () => {
    expect(fetches(models, undefined).map(({ label }) => label)).toEqual(['Fetch Large (1.2 GB)', 'Fetch Small (99 MB)']);
    expect(thereQuestion(models, undefined).detail).toContain('Small (MIT): 99 MB');
  });

  it('names none where a model is there', () => {
    expect(fetches([], undefined)).toEqual([]);
    expect(thereQuestion([], undefined)).toEqual({ message: 'The server and a model are installed already.', detail: '' });
  });

  it('names the encoder with its size, beside models or alone', () => {
    expect(fetches([], offer).map(({ label }) => label)).toEqual(['Fetch the encoder (62 MB)']);
    expect(fetches(models, offer).length).toBe(3);
    expect(thereQuestion([], offer).message).toBe('The server and a model are installed already. Fetch the encoder too?');
    expect(thereQuestion(models, offer).detail).toContain('• optional: the encoder');
  });
});

describe('the locks', () => {
  it.each(['server', 'prebuilt', 'local', 'build', 'similarity'])('%s.txt has a hash for each package, and names no place', (name) => {
    const lock = readFileSync(join('server', `${name}.txt`), 'utf8');
    const entries = lock.split('\n').filter((line) => /^\S+==/.test(line));
    expect(entries.length).toBeGreaterThan(3);
    for (const entry of entries) {
      expect(entry.endsWith('\\')).toBe(true);
    }
    expect(lock.match(/--hash=sha256:[0-9a-f]{64}/g)!.length).toBeGreaterThanOrEqual(entries.length);
    expect(lock).not.toMatch(/:\/\/|--index|--find-links/);
  });
});

describe('Python', () => {
  it('3.11 to 3.14 with venv will do', () => {
    expect(judge('[[3, 11, 0], true]')).toEqual({ version: '3.11.0', fault: undefined });
    expect(judge('[[3, 14, 1], true]').fault).toBeUndefined();
    expect(judge('[[3, 10, 9], true]').fault).toBe('old');
    expect(judge('[[2, 7, 18], true]').fault).toBe('old');
    expect(judge('[[3, 15, 0], true]').fault).toBe('new');
    expect(judge('[[4, 0, 0], true]').fault).toBe('new');
    expect(judge('[[3, 12, 1], false]').fault).toBe('noVenv');
  });

  it('that the sizes are counted for will do, and no later one', () => {
    const [, first, last] = /cp31\[(\d)-(\d)\]/.exec(readFileSync('../../tests/programs/write_server_lock.py', 'utf8'))!;
    expect(judge(`[[3, 1${first}, 0], true]`).fault).toBeUndefined();
    expect(judge(`[[3, 1${last}, 0], true]`).fault).toBeUndefined();
    expect(judge(`[[3, ${11 + Number(last)}, 0], true]`).fault).toBe('new');
  });

  it('that is missing, old, too new or incomplete: it is said what to do', () => {
    expect(advice([], 'linux')).toContain('apt install python3');
    expect(advice([], 'win32')).toContain('winget');
    expect(advice([{ version: '3.9.2', fault: 'old' }], 'darwin')).toMatch(/The Python here is 3\.9\.2.*brew/);
    expect(advice([{ version: '3.12.1', fault: 'noVenv' }], 'linux')).toContain('python3-venv');
    const tooNew = advice([{ version: '3.10.1', fault: 'old' }, { version: '3.15.0', fault: 'new' }], 'linux');
    expect(tooNew).toMatch(/Python 3\.15\.0 is too new.*install Python 3\.14, or name one in lspCalib\.server\.python/);
  });

  it('named by the user is taken or refused, not replaced', async () => {
    const options = { cwd: tmpdir(), log: { appendLine: () => undefined } };
    expect((await findPython('/nonexistent/python', options)).python).toBeUndefined();
    const found = await findPython('', { ...options, environment: { PATH: '' } });
    expect(found.python).toBeUndefined();
  });
});

describe('a program', () => {
  const lines: string[] = [];
  const options: Options = { cwd: mkdtempSync(join(tmpdir(), 'lsp-calib-')), log: { appendLine: (line) => lines.push(line) } };
  const node = (code: string, more: Partial<Options> = {}) => run(process.execPath, ['-e', code], { ...options, ...more });

  it('gives its output, and writes all of it to the log', async () => {
    expect(await node('console.log("out"); console.error("err")')).toBe('out\n');
    expect(lines).toEqual(expect.arrayContaining(['out', 'err']));
  });

  it('that fails is told with its last lines; one that is missing too', async () => {
    await expect(node('console.error("the reason"); process.exit(3)')).rejects.toThrow(/ended with 3: the reason/);
    await expect(run('/nonexistent', [], options)).rejects.toBeInstanceOf(ProgramError);
  });

  it('stops, with what it has started, when the user cancels', async () => {
    let stop = () => {};
    const cancellation = {
      isCancellationRequested: false,
      onCancellationRequested: (listener: () => void) => ((stop = listener), { dispose: () => undefined }),
    };
    const file = join(options.cwd, 'child');
    const child = `setTimeout(() => require('fs').writeFileSync(${JSON.stringify(file)}, ''), 1500); setTimeout(() => {}, 60000)`;
    const started = node(`require('child_process').spawn(process.execPath, ['-e', ${JSON.stringify(child)}]); console.log('up'); setTimeout(() => {}, 60000)`, {
      cancellation,
      onLine: () => {
        cancellation.isCancellationRequested = true;
        stop();
      },
    });
    await expect(started).rejects.toBeInstanceOf(Cancelled);
    await new Promise((done) => setTimeout(done, 2500));
    expect(existsSync(file)).toBe(false);
    await expect(node('1', { cancellation })).rejects.toBeInstanceOf(Cancelled);
  });
});
