// Pages in the editor: the report, and the details of the status. They run no script and load nothing: the view's own
// options say so, and each page's policy.

import { readFile } from 'node:fs/promises';
import * as vscode from 'vscode';
import { hasStrictPolicy, inTheme } from './report_page';

export class PageView implements vscode.Disposable {
  private panel: vscode.WebviewPanel | undefined;

  constructor(
    private readonly kind: string,
    private readonly title: string,
  ) {}

  /** Returns false for what is not a page under a strict policy: it is not shown. */
  show(html: string): boolean {
    if (!hasStrictPolicy(html)) {
      return false;
    }
    if (!this.panel) {
      const options = { enableScripts: false, enableForms: false, enableCommandUris: false, localResourceRoots: [], enableFindWidget: true };
      this.panel = vscode.window.createWebviewPanel(this.kind, this.title, vscode.ViewColumn.Active, options);
      this.panel.onDidDispose(() => (this.panel = undefined));
    }
    this.panel.webview.html = html;
    this.panel.reveal();
    return true;
  }

  /** Another text for the page, where it is open. */
  update(html: string): void {
    if (this.panel && this.panel.webview.html !== html) {
      this.panel.webview.html = html;
    }
  }

  dispose(): void {
    this.panel?.dispose();
  }
}

export class ReportView implements vscode.Disposable {
  private readonly page = new PageView('lspCalib.report', 'lsp-calib report');

  /** Shows the page at this path. Returns false for what is not a page under such a policy: it is not shown. */
  async show(path: vscode.Uri): Promise<boolean> {
    return this.page.show(inTheme(await readFile(path.fsPath, 'utf8'), isLight()));
  }

  dispose(): void {
    this.page.dispose();
  }
}

function isLight(): boolean {
  const { Light, HighContrastLight } = vscode.ColorThemeKind;
  return [Light, HighContrastLight].includes(vscode.window.activeColorTheme.kind);
}
