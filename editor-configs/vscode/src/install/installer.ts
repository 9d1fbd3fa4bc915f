// Installs the server, an engine and a model: one question first, then progress that can be cancelled.

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import * as vscode from 'vscode';
import { isInstalled, partialBytes, stateFolder } from '../server/state_folder';
import { onPath } from '../server/find';
import { pythonPath } from '../settings';
import { Environment, hasCompiler, type Receipt } from './environment';
import {
  choices,
  encoderChoices,
  fetches,
  question,
  thereQuestion,
  updateQuestion,
  type Choice,
  type Encoder,
  type EncoderOffer,
  type Engine,
  type Manifest,
  type Model,
  type Plan,
  type Sizes,
} from './plan';
import { Cancelled, run, type Options } from './process';
import { findPython, type Python } from './python';

const LOG = 'Show log';
const AGAIN = 'Try again';
const ANEW = 'Install again…';
const ENCODER = 'lsp-calib: fetching the encoder';
const WITH_ENCODER = 'With the encoder too…';

export class Installer {
  readonly environment: Environment;
  /** The extension's folder with the wheel and the locks: always there, and no workspace can write to it. */
  readonly shipped: string;
  private readonly storage: string;
  private readonly manifest: Manifest | undefined;
  private running: Promise<boolean> | undefined;
  private asked = false;

  constructor(
    context: vscode.ExtensionContext,
    private readonly log: vscode.LogOutputChannel,
  ) {
    this.storage = context.globalStorageUri.fsPath;
    this.shipped = context.asAbsolutePath('server');
    this.manifest = this.read<Manifest>('manifest.json');
    this.environment = new Environment(this.storage, this.shipped, this.manifest ?? NOTHING);
  }

  /** The program, if the extension has installed it and can go on with it. */
  get program(): string | undefined {
    return this.environment.receipt() && this.environment.program;
  }

  /** Whether the Python that the server was installed with is gone. */
  get lacksPython(): boolean {
    return !this.environment.hasPython;
  }

  /**
   * Asks, and installs if the answer is yes. Returns whether the server is to be started, again where it runs.
   *
   * makeWay: ends the server that runs, before its files are removed.
   */
  offer(makeWay: () => Promise<void>): Promise<boolean> {
    // The status bar offers it too, while the first question is still open.
    this.running ??= this.ask(makeWay).finally(() => (this.running = undefined));
    return this.running;
  }

  /** Brings the server of an earlier version of the extension up to date, where nothing has to be fetched for it. */
  async update(): Promise<void> {
    const receipt = this.outdated();
    if (receipt && !this.needsPackages(receipt)) {
      await this.environment.replaceServer(receipt, this.options());
    }
  }

  /** Asks whether to fetch newer packages, where the server needs them. Returns whether they are there now. */
  async offerUpdate(): Promise<boolean> {
    const receipt = this.outdated();
    if (!receipt || !this.needsPackages(receipt) || this.asked) {
      return false;
    }
    this.asked = true; // once for a window: a restart does not ask again
    return this.askForUpdate(receipt);
  }

  /** What an earlier version of the extension has installed. */
  private outdated(): Receipt | undefined {
    const receipt = this.environment.receipt();
    // Without its Python pip cannot bring it up to date: it is installed again.
    return this.manifest && receipt?.sha256 !== this.manifest.sha256 && this.environment.hasPython ? receipt : undefined;
  }

  /** Whether this version wants other packages than are installed. */
  private needsPackages({ locks, similarity }: Receipt): boolean {
    return locks !== this.manifest?.locks || (similarity !== undefined && similarity !== this.manifest.encoder?.locks);
  }

  private get sizes(): Sizes | undefined {
    return this.read<Record<string, Sizes>>('sizes.json')?.[`${process.platform}-${process.arch}`];
  }

  /** What there is to fetch of the encoder; undefined where all of it is there, or none of it for this platform. */
  private encoderOffer({ similarity }: Sizes, installed: string | undefined): EncoderOffer | undefined {
    const encoder = this.manifest?.encoder;
    if (!encoder || similarity === undefined) {
      return undefined;
    }
    const home = stateFolder(process.env);
    const packages = installed === encoder.locks ? 0 : similarity;
    const files = encoder.files.filter((file) => !isInstalled(home, file)).reduce((sum, { bytes }) => sum + bytes, 0);
    return packages + files > 0 ? { encoder, packages, files } : undefined;
  }

  private async ask(makeWay: () => Promise<void>): Promise<boolean> {
    const { sizes } = this;
    if (!this.manifest || !sizes) {
      const advice = 'Run `make install` in a clone of lsp-calib, and name the program in lspCalib.server.path.';
      void vscode.window.showErrorMessage(`lsp-calib cannot install its server on this platform. ${advice}`);
      return false;
    }
    const { models } = this.manifest;
    const home = stateFolder(process.env);
    const installed = models.find((model) => isInstalled(home, model))?.title;
    if (this.environment.isCurrent) {
      const offer = this.encoderOffer(sizes, this.environment.receipt()?.similarity);
      const wanted = await this.askWhatElse(installed === undefined ? models : [], offer);
      if (wanted !== ANEW) {
        return wanted !== undefined && this.fetchAll(wanted);
      }
    }
    const python = await this.python();
    if (!python) {
      return false;
    }
    const compiler = hasCompiler((name) => onPath(name, process.env));
    const plan: Plan = {
      python: `Python ${python.version}`,
      engine: compiler ? 'local' : 'prebuilt',
      sizes,
      installed,
      models,
      encoder: this.encoderOffer(sizes, undefined),
    };
    const { message, detail } = question(plan);
    const more = encoderChoices(plan);
    // One button for the encoder, whatever the number of models: dialogs have room for few.
    const answers = more.length > 1 ? choices(plan) : [...choices(plan), ...more];
    const labels = [...answers.map(({ label }) => label), ...(more.length > 1 ? [WITH_ENCODER] : [])];
    const answer = await vscode.window.showInformationMessage(message, { modal: true, detail }, ...labels);
    const placeHolder = 'What to install';
    const choice =
      answer === WITH_ENCODER ? await vscode.window.showQuickPick(more, { placeHolder }) : answers.find(({ label }) => label === answer);
    return choice ? this.install(python, plan.engine, choice, makeWay) : false;
  }

  /** Where the server is there: asks what to fetch besides, or whether to install all again. */
  private async askWhatElse(models: readonly Model[], offer: EncoderOffer | undefined): Promise<Choice | typeof ANEW | undefined> {
    const { message, detail } = thereQuestion(models, offer);
    const answers = fetches(models, offer);
    const answer = await vscode.window.showInformationMessage(message, { modal: true, detail }, ...answers.map(({ label }) => label), ANEW);
    return answer === ANEW ? ANEW : answers.find(({ label }) => label === answer);
  }

  private async python(): Promise<Python | undefined> {
    const search = await findPython(pythonPath(), this.options());
    if (!search.python) {
      void vscode.window.showErrorMessage(`lsp-calib: ${search.advice}`, AGAIN).then((answer) => {
        if (answer) {
          void vscode.commands.executeCommand('lspCalib.install');
        }
      });
    }
    return search.python;
  }

  private async install(python: Python, engine: Engine, choice: Choice, makeWay: () => Promise<void>): Promise<boolean> {
    await makeWay();
    const made = await this.withProgress('lsp-calib: installing', async (options, report) => {
      const started = Date.now();
      const got = await this.environment.make(python.program, engine, options, report);
      this.log.info(`installed with the engine ${got} in ${Math.round((Date.now() - started) / 1000)} s`);
    });
    if (made) {
      await this.fetchAll(choice);
    }
    return true; // whatever failed: the one that ran was ended, and a new one says itself that it has no model
  }

  /** Fetches what was chosen besides the server. Returns whether all of it is there. */
  private async fetchAll({ model, encoder }: Choice): Promise<boolean> {
    const fetched = !model || (await this.fetch(model));
    return fetched && (!encoder || (await this.fetchEncoder(encoder)));
  }

  private fetchEncoder({ name, files }: Encoder): Promise<boolean> {
    const bytes = files.reduce((sum, file) => sum + file.bytes, 0);
    return this.withProgress(ENCODER, async (options, report) => {
      await this.environment.addSimilarity(options, report);
      await this.pull(name, bytes, options, report);
    });
  }

  private fetch({ name, bytes }: Model): Promise<boolean> {
    return this.withProgress('lsp-calib: fetching a model', (options, report) => this.pull(name, bytes, options, report));
  }

  /** Gets a model by the installed server's own command, which checks its hash. */
  async pull(name: string, bytes: number, options: Options, report: (message: string) => void, program = this.environment.program): Promise<void> {
    const home = stateFolder(process.env);
    const look = () => {
      const share = bytes > 0 ? Math.min(99, Math.floor((100 * partialBytes(home)) / bytes)) : 0;
      report(`fetching the model ${name}${share ? `: ${share} %` : ''}`);
    };
    look();
    const timer = setInterval(look, 1000);
    try {
      await run(program, ['models', 'pull', name, '--json'], options);
    } finally {
      clearInterval(timer);
    }
  }

  /** Does something with progress that can be cancelled; a failure becomes a message. Returns whether it went well. */
  async withProgress(
    title: string,
    work: (options: Options, report: (message: string) => void) => Promise<void>,
  ): Promise<boolean> {
    const progress = { location: vscode.ProgressLocation.Notification, title, cancellable: true };
    try {
      await vscode.window.withProgress(progress, (shown, cancellation) =>
        work(this.options(cancellation), (message) => shown.report({ message })),
      );
      return true;
    } catch (error) {
      if (!(error instanceof Cancelled)) {
        void this.failed(`${title} failed`, error as Error);
      }
      return false;
    }
  }

  private async askForUpdate(receipt: Receipt): Promise<boolean> {
    const { sizes } = this;
    if (!sizes) {
      return false;
    }
    const encoder = receipt.similarity === undefined ? undefined : this.encoderOffer(sizes, receipt.similarity);
    const plan: Plan = { python: '', engine: receipt.engine, sizes, installed: undefined, models: [], encoder };
    const { message, detail } = updateQuestion(plan);
    const answer = await vscode.window.showInformationMessage(`${message} ${detail}`, 'Update');
    if (!answer) {
      return false;
    }
    this.asked = false; // an update that fails can be tried again
    const updated = await this.withProgress('lsp-calib: updating', async (options, report) => {
      await this.environment.fill(receipt.engine, options, report);
    });
    if (updated && receipt.similarity !== undefined) {
      await this.withProgress(ENCODER, (options, report) => this.environment.addSimilarity(options, report));
    }
    return updated;
  }

  private async failed(what: string, error: Error): Promise<void> {
    this.log.error(error.message);
    const reason = error.message.split('\n').findLast((line) => /error/i.test(line)) ?? error.message.slice(0, 300);
    const answer = await vscode.window.showErrorMessage(`${what}: ${reason} Nothing else in the editor is affected.`, LOG);
    if (answer === LOG) {
      this.log.show();
    }
  }

  private options(cancellation?: vscode.CancellationToken): Options {
    const log = { appendLine: (line: string) => this.log.info(line) };
    // Not the workspace: Python and pip read files of the folder that they are started in.
    const base = { cwd: this.shipped, log };
    return cancellation ? { ...base, cancellation } : base;
  }

  private read<T>(name: string): T | undefined {
    try {
      return JSON.parse(readFileSync(join(this.shipped, name), 'utf8')) as T;
    } catch {
      return undefined; // an extension that was packaged without a server
    }
  }
}

const NOTHING: Manifest = { version: '', wheel: '', locks: '', sha256: '', models: [] };
