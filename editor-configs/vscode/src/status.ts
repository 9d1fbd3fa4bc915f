// The status: the item of the status bar, with the tier of the suggestion on screen, and the page of details.

import * as vscode from 'vscode';
import type { OnScreen } from './badge';
import { PageView } from './report';
import { statusPage } from './status_page';
import { needsAttention, stateWords, statusLines, statusText } from './status_text';
import type { Legend, Status } from './wire';

export class StatusItem implements vscode.Disposable {
  private readonly item = vscode.window.createStatusBarItem('lspCalib.status', vscode.StatusBarAlignment.Right, 100);
  private readonly page = new PageView('lspCalib.status', 'lsp-calib status');
  private current: Status = { state: 'starting' };
  private shown: OnScreen | undefined;
  private legend: Legend = {};

  /** configFile: the path of the user's `config.toml`. */
  constructor(
    command: string,
    private readonly configFile: string,
  ) {
    this.item.name = 'lsp-calib';
    this.item.command = command;
  }

  get state(): string {
    return this.current.state;
  }

  get model(): string | undefined {
    return this.current.model ?? undefined;
  }

  get sentence(): string {
    return `lsp-calib: ${stateWords(this.current, this.legend)}`;
  }

  private get lines(): (readonly [string, string])[] {
    return statusLines(this.current, this.legend, this.configFile);
  }

  /** The details, which follow what the server says as long as they are open. */
  showPage(): void {
    this.page.show(statusPage(this.current, this.lines));
  }

  /** legend: the server's words for its states. */
  setLegend(legend: Legend): void {
    this.legend = legend;
    this.draw();
  }

  update(status: Status): void {
    this.current = status;
    this.draw();
  }

  /** shown: the suggestion on screen. */
  showTier(shown: OnScreen | undefined): void {
    this.shown = shown;
    this.draw();
  }

  dispose(): void {
    this.item.dispose();
    this.page.dispose();
  }

  private draw(): void {
    const lines = [this.shown?.why, ...this.lines.map(([name, text]) => `${name}: ${text}`)].filter((line) => line !== undefined);
    this.item.text = statusText(this.current, this.shown?.tier, this.legend);
    this.item.tooltip = lines.join('\n');
    this.item.accessibilityInformation = { label: lines.map((line) => line.replace(/\.$/, '')).join('. ') };
    this.page.update(statusPage(this.current, this.lines));
    this.item.backgroundColor = needsAttention(this.current)
      ? new vscode.ThemeColor('statusBarItem.warningBackground')
      : undefined;
    this.item.show();
  }
}
