// The server's own Python environment: where it is, whether it is whole, and how it is made.

import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Engine, Manifest } from './plan';
import { ProgramError, run, type Options } from './process';

/** What was installed: the last file that an installation writes. */
export interface Receipt {
  readonly locks: string;
  readonly sha256: string;
  readonly engine: Engine;
  /** What the lock of the encoder's packages was when they were installed; undefined where they are not there. */
  readonly similarity?: string;
}

export type Report = (message: string) => void;

const WINDOWS = process.platform === 'win32';
const PIP = ['-I', '-m', 'pip', 'install', '--no-input', '--disable-pip-version-check', '--progress-bar', 'off'];
const INSTALLS = 'Installing collected';
// Prints what llama.cpp must be compiled with here, as JSON; `{}` where nothing special is needed.
const COMPILER = `
import contextlib, io, json, shlex
from lsp_calib.inference.local import compiler
printed = io.StringIO()
with contextlib.redirect_stdout(printed):
    compiler.main()
words = [shlex.split(line)[1] for line in printed.getvalue().splitlines()]
print(json.dumps(dict(word.split("=", 1) for word in words)))
`;

export class Environment {
  private readonly folder: string;

  /** storage: the extension's own folder. shipped: the folder with the wheel and the locks. */
  constructor(
    private readonly storage: string,
    private readonly shipped: string,
    private readonly manifest: Manifest,
  ) {
    this.folder = join(storage, 'server');
  }

  get program(): string {
    return this.script('lsp-calib');
  }

  /** Whether its interpreter is there: it goes with the Python that the environment was made with. */
  get hasPython(): boolean {
    return existsSync(this.script('python'));
  }

  /** Whether all that this extension carries is installed. */
  get isCurrent(): boolean {
    const receipt = this.receipt();
    return receipt?.sha256 === this.manifest.sha256 && receipt.locks === this.manifest.locks && this.hasPython;
  }

  /** What is installed; undefined where nothing is, or an installation was not finished. */
  receipt(): Receipt | undefined {
    try {
      return JSON.parse(readFileSync(this.receiptFile, 'utf8')) as Receipt;
    } catch {
      return undefined;
    }
  }

  /** Makes the environment anew. python: the program to make it with. Returns the engine that it got. */
  async make(python: string, wanted: Engine, options: Options, report: Report): Promise<Engine> {
    rmSync(this.folder, { recursive: true, force: true });
    mkdirSync(this.storage, { recursive: true });
    report('making a Python environment');
    await run(python, ['-I', '-m', 'venv', this.folder], options);
    return this.fill(wanted, options, report);
  }

  /**
   * Installs everything into the environment; what is there in the right version stays.
   *
   * A server that worked keeps its receipt while packages are fetched and llama.cpp is compiled: who is offline, or
   * cancels, goes on with it and is asked again. It has none while pip replaces packages. The encoder's packages are
   * not among these, and do not count as installed afterwards.
   */
  async fill(wanted: Engine, options: Options, report: Report): Promise<Engine> {
    const before = this.receipt();
    await this.locked(wanted === 'prebuilt' ? 'prebuilt' : 'server', options, report);
    await this.wheel(options);
    if (before) {
      this.write(before);
    }
    const engine = wanted === 'local' ? await this.compile(options, report) : wanted;
    this.sign(engine);
    return engine;
  }

  /** Installs the encoder's packages beside the server, which is there in its present version and may run. */
  async addSimilarity(options: Options, report: Report): Promise<void> {
    const receipt = this.receipt();
    const similarity = this.manifest.encoder?.locks;
    if (receipt && similarity !== undefined && receipt.similarity !== similarity) {
      await this.locked('similarity', options, report);
      this.write({ ...receipt, similarity });
    }
  }

  /** Replaces the server by the one that this extension carries. Nothing is fetched. */
  async replaceServer({ engine, similarity }: Receipt, options: Options): Promise<void> {
    await this.wheel(options);
    this.sign(engine, similarity);
  }

  private async compile(options: Options, report: Report): Promise<Engine> {
    const python = this.script('python');
    try {
      await this.locked('build', options, report);
      const special = JSON.parse(await run(python, ['-I', '-c', COMPILER], options)) as NodeJS.ProcessEnv;
      report('compiling llama.cpp for this machine: some minutes');
      // What builds it is there, with hashes: nothing else is fetched for it.
      const environment = { ...pipEnvironment(options), ...special };
      const lock = ['--require-hashes', '--no-build-isolation', '--requirement', join(this.shipped, 'local.txt')];
      await run(python, [...PIP, ...lock], { ...options, environment, onLine: (line) => this.unsign(line) });
      return 'local';
    } catch (error) {
      if (!(error instanceof ProgramError)) {
        throw error;
      }
      options.log.appendLine('llama.cpp could not be compiled here: the compiled one is installed instead.');
      await this.locked('prebuilt', options, report);
      return 'prebuilt';
    }
  }

  private async locked(name: string, options: Options, report: Report): Promise<void> {
    const lock = join(this.shipped, `${name}.txt`);
    const all = readFileSync(lock, 'utf8').match(/^\S+==/gm)?.length ?? 0;
    let collected = 0;
    const onLine = (line: string) => {
      if (name !== 'build' && name !== 'similarity') {
        this.unsign(line); // the server runs without what builds llama.cpp, and without the encoder
      }
      const found = /^Collecting ([\w.-]+)/.exec(line);
      if (found) {
        report(`fetching ${found[1]} (${++collected} of ${all})`);
      } else if (line.startsWith(INSTALLS)) {
        report('installing packages');
      }
    };
    const args = [...PIP, '--require-hashes', '--only-binary', ':all:', '--requirement', lock];
    await run(this.script('python'), args, { ...options, environment: pipEnvironment(options), onLine });
  }

  private async wheel(options: Options): Promise<void> {
    const file = join(this.shipped, this.manifest.wheel);
    const args = [...PIP, '--no-deps', '--no-index', '--force-reinstall', file];
    await run(this.script('python'), args, { ...options, environment: pipEnvironment(options) });
  }

  private sign(engine: Engine, similarity?: string): void {
    const { locks, sha256 } = this.manifest;
    this.write({ locks, sha256, engine, ...(similarity === undefined ? {} : { similarity }) });
  }

  private write(receipt: Receipt): void {
    writeFileSync(this.receiptFile, JSON.stringify(receipt));
  }

  /** Takes the receipt away once pip has fetched and built all, and says that it now changes what is there. */
  private unsign(line: string): void {
    if (line.startsWith(INSTALLS)) {
      rmSync(this.receiptFile, { force: true });
    }
  }

  private get receiptFile(): string {
    return join(this.folder, 'installed.json');
  }

  private script(name: string): string {
    return WINDOWS ? join(this.folder, 'Scripts', `${name}.exe`) : join(this.folder, 'bin', name);
  }
}

/** Whether a C and a C++ compiler are there, which CMake would find. */
export function hasCompiler(onPath: (name: string) => string | undefined, platform = process.platform): boolean {
  if (platform === 'win32') {
    return onPath('cl') !== undefined; // only in a developer's prompt
  }
  // macOS has stubs of the compilers that ask for the real ones to be installed.
  const real = platform !== 'darwin' || ['/Library/Developer/CommandLineTools', '/Applications/Xcode.app'].some(existsSync);
  return real && onPath('cc') !== undefined && onPath('c++') !== undefined;
}

function pipEnvironment({ environment }: Options): NodeJS.ProcessEnv {
  // The user's index, proxy and certificates count; a target elsewhere would leave this environment empty.
  return { ...(environment ?? process.env), PIP_USER: '0', PIP_TARGET: '', PIP_REQUIRE_VIRTUALENV: '' };
}
