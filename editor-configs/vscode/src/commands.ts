// The commands of the palette and of the status menu.

import { delimiter, dirname } from 'node:path';
import * as vscode from 'vscode';
import type { BadgeView } from './badge';
import { run } from './install/process';
import type { NextEdits } from './next_edit';
import type { Installer } from './install/installer';
import { choices, type Listed } from './model_list';
import type { Session } from './session';
import { setModel } from './settings';
import type { StatusItem } from './status';
import type { Status } from './wire';

// For how long, in minutes; undefined: until it is resumed.
const PAUSES = [
  { label: 'Until I resume', minutes: undefined },
  { label: '10 minutes', minutes: 10 },
  { label: '1 hour', minutes: 60 },
];
const HAD_ONE = 'The last request for a completion here had a suggestion, or there was no request yet.';

interface Fit {
  readonly promoted: boolean;
  readonly reason: string;
  readonly n: number;
}

interface Item extends vscode.QuickPickItem {
  readonly command: string;
}

export class Commands {
  constructor(
    private readonly session: Session,
    private readonly badge: BadgeView,
    private readonly nextEdits: NextEdits,
    private readonly status: StatusItem,
    private readonly installer: Installer,
    private readonly log: vscode.LogOutputChannel,
  ) {}

  /** Registers all. The names differ from the server's own (`lsp-calib.*`), which the client registers itself. */
  register(): vscode.Disposable[] {
    const commands: Record<string, (...args: never[]) => unknown> = {
      menu: () => this.menu(),
      refit: () => this.refit(),
      rollback: () => this.rollback(),
      showReport: () => this.session.ask('lsp-calib.showReport'), // session.ts shows the page
      terminal: () => this.terminal(),
      exportFeedback: () => this.exportFeedback(),
      purgeFeedback: () => this.purgeFeedback(),
      showStatus: () => this.showStatus(),
      explain: () => this.explain(),
      pause: (minutes?: unknown) => this.pause(minutes),
      resume: () => this.session.ask('lsp-calib.resume'),
      pickModel: () => this.pickModel(),
      install: () => this.session.install(),
      restart: () => this.session.restart(),
      restartModel: () => this.session.ask('lsp-calib.restartModel'),
      why: (message?: unknown) => this.why(message),
      markReviewed: (id?: unknown) => this.markReviewed(id),
      insertSummary: () => this.insertSummary(),
      walkthrough: () => openWalkthrough(),
      openSettings: () => vscode.commands.executeCommand('workbench.action.openSettings', '@ext:lsp-calib.lsp-calib'),
      showLog: () => this.log.show(),
      hide: () => this.hide(),
      acceptSure: () => this.acceptSure(),
      'nextEdit.go': () => this.nextEdits.go(),
      'nextEdit.apply': () => this.nextEdits.apply(),
      'nextEdit.dismiss': () => this.nextEdits.dismiss(),
    };
    return Object.entries(commands).map(([name, body]) => vscode.commands.registerCommand(`lspCalib.${name}`, body));
  }

  private async menu(): Promise<void> {
    if (this.status.state === 'notInstalled') {
      return this.session.install();
    }
    const paused = this.status.state === 'paused';
    const items: Item[] = [
      { label: '$(question) Why is nothing here?', command: 'explain' },
      { label: '$(info) Why this tier?', command: 'why' },
      paused
        ? { label: '$(debug-continue) Resume completions', command: 'resume' }
        : { label: '$(debug-pause) Pause completions', command: 'pause' },
      { label: '$(graph) Show report', command: 'showReport' },
      { label: '$(refresh) Refit the calibrator', command: 'refit' },
      { label: '$(discard) Take back the last calibrator', command: 'rollback' },
      { label: '$(terminal) Terminal for lsp-calib', command: 'terminal' },
      { label: '$(package) Pick a model', command: 'pickModel' },
      { label: '$(list-unordered) Status', command: 'showStatus' },
      { label: '$(gear) Settings', command: 'openSettings' },
      { label: '$(debug-restart) Restart the server', command: 'restart' },
      { label: '$(output) Show log', command: 'showLog' },
    ];
    const chosen = await vscode.window.showQuickPick(items, { title: this.status.sentence, placeHolder: 'lsp-calib' });
    if (chosen) {
      await vscode.commands.executeCommand(`lspCalib.${chosen.command}`);
    }
  }

  private async acceptSure(): Promise<void> {
    if (!(await this.badge.acceptSure())) {
      inform('nothing to take: no part of what is on screen is as sure as accept');
    }
  }

  private async refit(): Promise<void> {
    const progress = { location: vscode.ProgressLocation.Window, title: 'lsp-calib: refitting' };
    const result = await vscode.window.withProgress(progress, () => this.session.ask<Fit>('lsp-calib.refit'));
    if (result) {
      tellOfFit(result);
    }
  }

  private async rollback(): Promise<void> {
    const result = await this.session.ask<{ message: string }>('lsp-calib.rollbackCalibrator');
    if (result) {
      inform(result.message);
    }
  }

  /** A terminal in the folder, with the server's program on the PATH. What is typed there is not run. */
  private async terminal(): Promise<void> {
    const { program } = this.session.found;
    if (!program) {
      return this.session.install();
    }
    const folder = await chosenFolder();
    if (folder) {
      const env = { PATH: [dirname(program), process.env['PATH']].join(delimiter) };
      const terminal = vscode.window.createTerminal({ name: 'lsp-calib', cwd: folder.uri, env });
      terminal.show();
      // Not the folder's name: shells differ in what they make of its characters.
      terminal.sendText('lsp-calib calibrate .', false);
    }
  }

  private async exportFeedback(): Promise<void> {
    const filters = { 'JSON lines': ['jsonl'] };
    const place = await vscode.window.showSaveDialog({ title: 'Export feedback to a new file', filters });
    const result = place && (await this.session.ask<{ n: number; path: string }>('lsp-calib.exportFeedback', { path: place.fsPath }));
    if (result) {
      inform(`Exported: ${counted(result.n)}, to ${result.path}`);
    }
  }

  private async purgeFeedback(): Promise<void> {
    const question = 'Remove everything that lsp-calib has stored of your suggestions?';
    const detail = 'It cannot be undone. Your calibrators stay.';
    const choice = await vscode.window.showWarningMessage(question, { modal: true, detail }, 'Remove');
    const result = choice && (await this.session.ask<{ n: number }>('lsp-calib.purgeFeedback'));
    if (result) {
      inform(`Removed: ${counted(result.n)}`);
    }
  }

  private async showStatus(): Promise<void> {
    const state = await this.session.ask<Status>('lsp-calib.status');
    if (state) {
      this.status.update(state);
      this.status.showPage();
    }
  }

  private async explain(): Promise<void> {
    const document = vscode.window.activeTextEditor?.document;
    const uri = document && this.session.uriOf(document);
    const answer = await this.session.ask<{ message: string } | null>('lsp-calib.explain', uri ? { uri } : {});
    if (answer !== undefined) {
      inform(answer?.message ?? HAD_ONE);
    }
  }

  /** No ghost text until it is asked for or resumed. minutes: without asking for how long. */
  private async pause(minutes?: unknown): Promise<void> {
    const placeHolder = 'Pause the completions that come by themselves';
    const chosen = typeof minutes === 'number' ? { minutes } : await vscode.window.showQuickPick(PAUSES, { placeHolder });
    if (chosen) {
      this.session.hide();
      await this.session.ask('lsp-calib.pause', chosen.minutes === undefined ? {} : { minutes: chosen.minutes });
      await vscode.commands.executeCommand('editor.action.inlineSuggest.hide');
    }
  }

  private async pickModel(): Promise<void> {
    const { program } = this.session.found;
    if (!program) {
      return this.session.install();
    }
    let listed: Listed[] = [];
    const known = await this.installer.withProgress('lsp-calib: looking at models', async (options) => {
      listed = JSON.parse(await run(program, ['models', 'list', '--json'], options)) as Listed[];
    });
    const placeHolder = 'The model that completes and summarises';
    const chosen = known && (await vscode.window.showQuickPick(choices(listed, this.status.model), { placeHolder, matchOnDescription: true }));
    if (!chosen) {
      return;
    }
    const { name, bytes, installed } = chosen.model;
    const there =
      installed ||
      (await this.installer.withProgress('lsp-calib: fetching a model', (options, report) =>
        this.installer.pull(name, bytes ?? 0, options, report, program),
      ));
    if (there) {
      await setModel(name); // the server is started again, as the setting has changed
    }
  }

  /** message: from a diagnostic; otherwise about the suggestion or the edit on offer, or the mark at the cursor. */
  private why(message?: unknown): void {
    const said = typeof message === 'string' ? message : (this.badge.why() ?? this.nextEdits.why() ?? markAtCursor()?.message);
    inform(said ?? 'There is no suggestion or edit on screen, and no mark of one at the cursor.');
  }

  private async markReviewed(id?: unknown): Promise<void> {
    const mark = typeof id === 'string' ? id : idOf(markAtCursor());
    if (mark === undefined) {
      inform('There is no mark of a suggestion at the cursor.');
    } else {
      await this.session.ask('lsp-calib.markReviewed', { id: mark });
    }
  }

  private async insertSummary(): Promise<void> {
    const editor = vscode.window.activeTextEditor;
    const uri = editor && this.session.uriOf(editor.document);
    if (uri) {
      const { line, character } = editor.selection.active;
      await this.session.ask('lsp-calib.insertSummary', { uri, position: { line, character } });
    }
  }

  private async hide(): Promise<void> {
    const { id } = this.badge;
    this.session.hide();
    if (id !== undefined) {
      await this.session.ask('lsp-calib.rejected', { id });
    }
  }
}

export function openWalkthrough(): Thenable<unknown> {
  return vscode.commands.executeCommand('workbench.action.openWalkthrough', 'lsp-calib.lsp-calib#start', false);
}

/** The id that the server gave a mark, which rides in the diagnostic's data. */
export function idOf(diagnostic: vscode.Diagnostic | undefined): string | undefined {
  const data = (diagnostic as { data?: { id?: unknown } } | undefined)?.data;
  return typeof data?.id === 'string' ? data.id : undefined;
}

function markAtCursor(): vscode.Diagnostic | undefined {
  const editor = vscode.window.activeTextEditor;
  const marks = editor ? vscode.languages.getDiagnostics(editor.document.uri) : [];
  return marks.find(({ source, range }) => source === 'lsp-calib' && range.start.line === editor?.selection.active.line);
}

async function chosenFolder(): Promise<vscode.WorkspaceFolder | undefined> {
  const folders = vscode.workspace.workspaceFolders ?? [];
  if (folders.length === 0) {
    inform('Open the folder of your project first.');
  }
  return folders.length > 1 ? vscode.window.showWorkspaceFolderPick() : folders[0];
}

function tellOfFit({ promoted, reason, n }: Fit): void {
  inform(`${promoted ? 'new calibrator' : 'calibrator unchanged'}: ${reason} (labels: ${n})`);
}

function inform(message: string): void {
  void vscode.window.showInformationMessage(`lsp-calib: ${message}`);
}

function counted(n: number): string {
  return n === 1 ? '1 suggestion' : `${n} suggestions`;
}
