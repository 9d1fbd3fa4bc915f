// The server's life: found, started, watched, started again. Where it cannot run, one message says what to do.

import * as vscode from 'vscode';
import { CloseAction, ErrorAction, LanguageClient, RevealOutputChannelOn, type ErrorHandler, type Middleware } from 'vscode-languageclient/node';
import type { BadgeView } from './badge';
import { CursorFeature } from './cursor';
import type { Installer } from './install/installer';
import type { LateAnswers } from './late';
import type { NextEdits } from './next_edit';
import type { ReportView } from './report';
import { findServer, type Found } from './server/find';
import { Restarts } from './server/restarts';
import { initializationOptions, needRestart, ofWorkspace, SECTION, serverPath } from './settings';
import type { StatusItem } from './status';
import type { Legend, Status } from './wire';

// Cells are documents of their own, with the text of their notebook around them (`notebookDocumentSync`); what is on another machine has a server there.
const DOCUMENTS = ['file', 'untitled', 'vscode-notebook-cell'].map((scheme) => ({ scheme }));
const OPEN_SETTINGS = 'Open settings';
const RESTART = 'Restart';
const LOG = 'Show log';
const AGAIN = 'Install again';
// A server that hangs while it starts is not waited for: it is ended, and what follows goes on.
const START_LIMIT_MS = 10_000;
const END_LIMIT_MS = 5_000;
// JSON-RPC's codes and those of Node.js: what was asked could not be written, or nobody is left to answer.
const CONNECTION_LOST: unknown[] = [-32099, -32097, -32096, 'EPIPE', 'ECONNRESET', 'ERR_STREAM_DESTROYED'];

class Client extends LanguageClient {
  /** Whether its server has started once. One that has not is not started again: whoever started it says so. */
  ready = false;

  override error(message: string, data?: unknown, show?: boolean | 'force'): void {
    // 'force' is "could not be started" and "will not be restarted" alone: the session says it better.
    super.error(message, data, show === 'force' ? false : show);
  }
}

export interface Views {
  readonly badge: BadgeView;
  readonly late: LateAnswers;
  readonly nextEdits: NextEdits;
  readonly status: StatusItem;
  readonly report: ReportView;
}

export class Session {
  private client: Client | undefined;
  private restarts = new Restarts();
  // Starts and stops run one after the other: two at once would leave a server that nobody stops.
  private queue: Promise<unknown> = Promise.resolve();
  private waiting: Promise<void> | undefined;
  /** Notebooks that VS Code saves by itself, after a pause: the protocol does not say so, and a save settles labels. */
  private readonly savedByThemselves = new Set<string>();

  constructor(
    private readonly views: Views,
    private readonly installer: Installer,
    private readonly log: vscode.LogOutputChannel,
  ) {}

  get found(): Found {
    return findServer({ configured: serverPath(), own: this.installer.program, environment: process.env });
  }

  private knows(command: string): boolean {
    return this.client?.initializeResult?.capabilities.executeCommandProvider?.commands.includes(command) ?? false;
  }

  /** Follows changes of the settings, of the workspace's folders and of the trust in it. */
  watch(): vscode.Disposable[] {
    return [
      vscode.workspace.onDidChangeConfiguration((event) => (needRestart(event) ? this.restart() : undefined)),
      // What a new folder excludes counts at once; what one that goes has excluded, until the next start.
      vscode.workspace.onDidChangeWorkspaceFolders(() => this.tellOfSettings()),
      vscode.workspace.onDidGrantWorkspaceTrust(() => this.restart()),
      vscode.workspace.onWillSaveNotebookDocument(({ notebook, reason }) => {
        const name = notebook.uri.toString();
        if (reason === vscode.TextDocumentSaveReason.AfterDelay) {
          this.savedByThemselves.add(name);
        } else {
          this.savedByThemselves.delete(name);
        }
      }),
    ];
  }

  /** Starts the server. Where there is none and `asks`, offers to install it. */
  async start(asks: boolean): Promise<void> {
    await this.follow(await this.inTurn(() => this.launch()), asks);
  }

  /** What is said and asked after a start. Not in the queue: a question that is not answered holds up nothing. */
  private async follow(found: Found, asks: boolean): Promise<void> {
    if (found.program !== undefined) {
      await this.update(found.program);
    } else if (found.missing) {
      await this.missing(found.missing);
    } else {
      await this.install(asks);
    }
  }

  async install(asks = true): Promise<void> {
    if (this.found.program === undefined) {
      this.views.status.update({ state: 'notInstalled', message: 'the server is not installed: click to install it' });
    }
    if (asks && (await this.installer.offer(() => this.makeWay()))) {
      await this.restart();
    }
  }

  /** Ends the server before its files are replaced. */
  private async makeWay(): Promise<void> {
    await this.stop();
    this.views.status.update({ state: 'installing', message: 'installing the server' });
  }

  async stop(): Promise<void> {
    await this.inTurn(() => this.end());
  }

  /** Takes the badge away with its ghost text, and shows nothing of what is still waited for. */
  hide(): void {
    this.views.late.stop();
    if (this.views.badge.why() !== undefined) {
      this.views.badge.clear();
      void vscode.commands.executeCommand('editor.action.inlineSuggest.hide');
    }
  }

  async restart(): Promise<void> {
    // One that has not begun yet will do for all who ask meanwhile.
    this.waiting ??= this.inTurn(() => {
      this.waiting = undefined;
      this.restarts = new Restarts();
      return this.launch();
    }).then((found) => this.follow(found, false));
    await this.waiting;
  }

  /** The server's answer to one of its commands; undefined, and a message, where there is none. */
  async ask<T>(command: string, ...args: unknown[]): Promise<T | undefined> {
    if (!this.client?.isRunning()) {
      void vscode.window.showErrorMessage(`${this.views.status.sentence}. Its commands work once it runs.`);
      return undefined;
    }
    try {
      return await this.client.sendRequest<T>('workspace/executeCommand', { command, arguments: args });
    } catch (error) {
      const said = lost(error) ? 'the server ended before it answered. Try again once it runs.' : messageOf(error);
      void vscode.window.showErrorMessage(`lsp-calib: ${said.replace(/^lsp-calib: /, '')}`);
      return undefined;
    }
  }

  /** Has the server ask for the settings again. */
  private async tellOfSettings(): Promise<void> {
    if (this.client?.isRunning()) {
      await this.client.sendNotification('workspace/didChangeConfiguration', { settings: null }).catch(() => undefined);
    }
  }

  /** A document's address as the server knows it. */
  uriOf(document: vscode.TextDocument): string | undefined {
    return this.client?.code2ProtocolConverter.asUri(document.uri);
  }

  /** Does something after all that was asked for before, whether or not that went well. */
  private inTurn<T>(work: () => Promise<T>): Promise<T> {
    const done = this.queue.then(work);
    this.queue = done.catch(() => undefined);
    return done;
  }

  private async launch(): Promise<Found> {
    await this.end();
    const { program: before } = this.found;
    if (before !== undefined && before === this.installer.program) {
      this.views.status.update({ state: 'starting', message: 'starting the server' });
      await this.installer.update().catch((error: Error) => this.log.error(error.message));
    }
    const found = this.found;
    if (found.program !== undefined) {
      void this.run(found.program); // end() waits for it
    }
    return found;
  }

  private async end(): Promise<void> {
    this.hide();
    const client = this.client;
    this.client = undefined;
    if (!client) {
      return;
    }
    // A client that is starting cannot be stopped; where it runs, this is done at once.
    const starting = client.needsStop() ? client.start().catch(() => undefined) : Promise.resolve();
    const hangs = !(await within(START_LIMIT_MS, starting));
    const { serverProcess } = client; // which dispose() forgets
    await client.dispose().catch(() => undefined); // what never ran cannot be stopped
    if (hangs) {
      serverProcess?.kill('SIGKILL');
      await within(END_LIMIT_MS, starting);
    }
  }

  /** Offers newer packages beside the server that runs without them. */
  private async update(program: string): Promise<void> {
    if (program === this.installer.program && (await this.installer.offerUpdate())) {
      await this.restart();
    }
  }

  private async run(program: string): Promise<void> {
    const { status, badge, nextEdits } = this.views;
    // Not in the workspace, where the client would start it: with a relative part in PYTHONPATH its files would be run.
    const server = { command: program, args: ['serve', '--trust-editor'], options: { cwd: this.installer.shipped } };
    const client: Client = new Client('lspCalib', 'lsp-calib', server, {
      documentSelector: DOCUMENTS,
      initializationOptions,
      synchronize: { configurationSection: SECTION },
      outputChannel: this.log,
      // A request that fails because nobody reads it any more, or in any other way, is for the log: VS Code asks by itself, at each key.
      revealOutputChannelOn: RevealOutputChannelOn.Never,
      errorHandler: this.errorHandler(() => (this.client === client ? client : undefined)),
      initializationFailedHandler: () => false, // shows nothing: what follows says it, unless another start mends it
      middleware: this.middleware(),
      markdown: { isTrusted: false, supportHtml: false },
    });
    client.registerFeature(new CursorFeature(client));
    client.registerFeature(nextEdits.featureOf(client));
    this.client = client;
    client.onNotification('lsp-calib/status', (state: Status) => {
      if (this.client === client) {
        status.update(state);
      }
    });
    status.update({ state: 'starting', message: 'starting the server' });
    try {
      await client.start();
      client.ready = true;
    } catch (error) {
      if (this.client !== client) {
        return;
      }
      if (program === this.installer.program && this.installer.lacksPython) {
        await this.broken();
      } else {
        await this.dead(`did not start from ${program}: ${lost(error) ? 'it ended before it was ready' : messageOf(error)}`);
      }
      return;
    }
    if (this.client !== client) {
      return;
    }
    const told = client.initializeResult?.capabilities.experimental as { lspCalib?: { badges?: Legend } } | undefined;
    const legend = told?.lspCalib?.badges ?? {};
    badge.setLegend(legend);
    status.setLegend(legend);
    nextEdits.setLegend(legend);
    const inserts = this.knows('lsp-calib.insertSummary');
    void vscode.commands.executeCommand('setContext', 'lspCalib.can.insertSummary', inserts);
    void vscode.commands.executeCommand('setContext', 'lspCalib.running', true);
  }

  private middleware(): Middleware {
    return {
      provideInlineCompletionItems: (document, position, context, token, next) =>
        this.views.badge.follow(
          document,
          position,
          token,
          this.views.late.follow(document, position, token, (patient) => next(document, position, context, patient)),
        ),
      notebooks: {
        didSave: async (notebook, next) => (this.savedByThemselves.delete(notebook.uri.toString()) ? undefined : next(notebook)),
      },
      window: {
        // The report: in the editor, under a policy. What is no report opens where it always did.
        showDocument: async (params, token, next) => {
          const uri = vscode.Uri.parse(params.uri);
          const isReport = uri.scheme === 'file' && uri.path.endsWith('/report.html');
          const shown = isReport && (await this.views.report.show(uri).catch(() => false));
          return shown ? { success: true } : next(params, token);
        },
      },
      workspace: {
        // Nothing else is the server's to know.
        configuration: ({ items }) => items.map(({ section }) => (section === SECTION ? ofWorkspace() : null)),
        didChangeConfiguration: (_sections, next) => next([SECTION]),
      },
    };
  }

  /** current: the client of this server, as long as the session wants it. */
  private errorHandler(current: () => Client | undefined): ErrorHandler {
    return {
      error: () => ({ action: ErrorAction.Continue, handled: true }),
      closed: () => {
        const client = current();
        if (!client?.ready) {
          return { action: CloseAction.DoNotRestart, handled: true };
        }
        this.hide();
        if (this.restarts.another(Date.now())) {
          this.views.status.update({ state: 'starting', message: 'the server ended and is started again' });
          return { action: CloseAction.Restart, handled: true };
        }
        void this.dead('ended several times within minutes');
        return { action: CloseAction.DoNotRestart, handled: true };
      },
    };
  }

  private async dead(what: string): Promise<void> {
    this.views.status.update({ state: 'error', message: `the server ${what}` });
    const advice = 'Editing goes on without it. The log says why; `lsp-calib doctor` in a terminal says what to do.';
    const answer = await vscode.window.showErrorMessage(`lsp-calib ${what.replace(/\.$/, '')}. ${advice}`, RESTART, LOG);
    if (answer === RESTART) {
      await this.restart();
    } else if (answer === LOG) {
      this.log.show();
    }
  }

  private async broken(): Promise<void> {
    this.views.status.update({ state: 'error', message: 'the Python that the server was installed with is gone' });
    const advice = 'Install it again; models that are there stay.';
    const answer = await vscode.window.showErrorMessage(`lsp-calib did not start: the Python that it was installed with is gone. ${advice}`, AGAIN);
    if (answer) {
      await this.install();
    }
  }

  private async missing(program: string): Promise<void> {
    this.views.status.update({ state: 'error', message: `there is no program ${program}` });
    const advice = 'Correct lspCalib.server.path, or leave it empty: the extension then finds or installs the server.';
    const answer = await vscode.window.showErrorMessage(`lsp-calib did not start: there is no program "${program}". ${advice}`, OPEN_SETTINGS);
    if (answer) {
      await vscode.commands.executeCommand('workbench.action.openSettings', 'lspCalib.server.path');
    }
  }
}

function lost(error: unknown): boolean {
  return CONNECTION_LOST.includes((error as { code?: unknown }).code);
}

/** What a failure says of itself: the client gives some of them as texts. */
function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** Waits for something, but not for longer than a limit. Returns whether it came. */
async function within(limitMs: number, done: Promise<unknown>): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<boolean>((resolve) => (timer = setTimeout(() => resolve(false), limitMs)));
  const came = await Promise.race([done.then(() => true), late]);
  clearTimeout(timer);
  return came;
}
