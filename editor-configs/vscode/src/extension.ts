// The extension: puts the parts together. Documents, diagnostics, hover, inline completion and the server's commands
// come through vscode-languageclient.

import { join } from 'node:path';
import * as vscode from 'vscode';
import { MarkActions } from './actions';
import { BadgeView } from './badge';
import { Commands, openWalkthrough } from './commands';
import { Installer } from './install/installer';
import { LateAnswers } from './late';
import { NextEdits } from './next_edit';
import { ReportView } from './report';
import { stateFolder } from './server/state_folder';
import { Session } from './session';
import { StatusItem } from './status';

// Remembered for all windows: who said no once is not asked again, the status bar still offers it.
const WELCOMED = 'welcomed';
const DOCUMENTS = [{ scheme: 'file' }, { scheme: 'untitled' }, { scheme: 'vscode-notebook-cell' }];

let session: Session | undefined;

export async function activate(context: vscode.ExtensionContext): Promise<void> {
  const log = vscode.window.createOutputChannel('lsp-calib', { log: true });
  const status = new StatusItem('lspCalib.menu', join(stateFolder(process.env), 'config.toml'));
  const badge = new BadgeView((shown) => status.showTier(shown));
  const late = new LateAnswers();
  const nextEdits = new NextEdits();
  const report = new ReportView();
  const installer = new Installer(context, log);
  const started = new Session({ badge, late, nextEdits, status, report }, installer, log);
  session = started;
  context.subscriptions.push(
    log,
    status,
    badge,
    late,
    nextEdits,
    report,
    ...new Commands(started, badge, nextEdits, status, installer, log).register(),
    vscode.languages.registerCodeActionsProvider(DOCUMENTS, new MarkActions(), MarkActions.metadata),
    ...started.watch(),
  );
  const first = !context.globalState.get<boolean>(WELCOMED);
  if (first) {
    await context.globalState.update(WELCOMED, true);
    const start = vscode.workspace.getConfiguration('workbench.welcomePage.walkthroughs');
    if (start.get<boolean>('openOnInstall') !== false) {
      void openWalkthrough();
    }
  }
  // Not awaited: a question may stand open for long.
  void started.start(first);
}

export function deactivate(): Promise<void> | undefined {
  return session?.stop();
}
