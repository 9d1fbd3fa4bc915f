// The report as a page in the editor. It runs no script and loads nothing: its own policy says so, and the view's.

import { readFile } from 'node:fs/promises';
import * as vscode from 'vscode';
import { hasStrictPolicy, inTheme } from './report_page';

export class ReportView implements vscode.Disposable {
  private panel: vscode.WebviewPanel | undefined;

  /** Shows the page at this path. Returns false for what is not a page under such a policy: it is not shown. */
  async show(path: vscode.Uri): Promise<boolean> {
    const html = await readFile(path.fsPath, 'utf8');
    if (!hasStrictPolicy(html)) {
      return false;
    }
    if (!this.panel) {
      const options = { enableScripts: false, enableForms: false, enableCommandUris: false, localResourceRoots: [], enableFindWidget: true };
      this.panel = vscode.window.createWebviewPanel('lspCalib.report', 'lsp-calib report', vscode.ViewColumn.Active, options);
      this.panel.onDidDispose(() => (this.panel = undefined));
    }
    this.panel.webview.html = inTheme(html, isLight());
    this.panel.reveal();
    return true;
  }

  dispose(): void {
    this.panel?.dispose();
  }
}

function isLight(): boolean {
  const { Light, HighContrastLight } = vscode.ColorThemeKind;
  return [Light, HighContrastLight].includes(vscode.window.activeColorTheme.kind);
}
