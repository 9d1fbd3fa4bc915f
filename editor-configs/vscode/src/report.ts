// The report as a page in the editor. It runs no script and loads nothing: its own policy says so, and the view's.

import { readFile } from 'node:fs/promises';
import * as vscode from 'vscode';

const POLICY = /<meta[^>]*http-equiv="Content-Security-Policy"[^>]*content="default-src (?:'none'|&#39;none&#39;);/i;

export class ReportView implements vscode.Disposable {
  private panel: vscode.WebviewPanel | undefined;

  /** Shows the page at this path. Returns false for what is not a page under such a policy: it is not shown. */
  async show(path: vscode.Uri): Promise<boolean> {
    const html = await readFile(path.fsPath, 'utf8');
    if (!POLICY.test(html)) {
      return false;
    }
    if (!this.panel) {
      const options = { enableScripts: false, enableForms: false, enableCommandUris: false, localResourceRoots: [], enableFindWidget: true };
      this.panel = vscode.window.createWebviewPanel('lspCalib.report', 'lsp-calib report', vscode.ViewColumn.Active, options);
      this.panel.onDidDispose(() => (this.panel = undefined));
    }
    this.panel.webview.html = inTheme(html);
    this.panel.reveal();
    return true;
  }

  dispose(): void {
    this.panel?.dispose();
  }
}

/** The page in the editor's colours, light or dark, whatever the system prefers. */
function inTheme(html: string): string {
  const light = [vscode.ColorThemeKind.Light, vscode.ColorThemeKind.HighContrastLight].includes(vscode.window.activeColorTheme.kind);
  return html.replace(/<html(?![^>]*data-theme)/, `<html data-theme="${light ? 'light' : 'dark'}"`);
}
