// The status bar item: what the server last said of itself, and the tier of the suggestion on screen.

import * as vscode from 'vscode';
import { needsAttention, statusSentence, statusText } from './status_text';
import type { OnScreen } from './badge';
import type { Legend, Status } from './wire';

export class StatusItem implements vscode.Disposable {
  private readonly item = vscode.window.createStatusBarItem('lspCalib.status', vscode.StatusBarAlignment.Right, 100);
  private current: Status = { state: 'starting' };
  private shown: OnScreen | undefined;
  private legend: Legend = {};

  constructor(command: string) {
    this.item.name = 'lsp-calib';
    this.item.command = command;
  }

  get state(): string {
    return this.current.state;
  }

  get sentence(): string {
    return statusSentence(this.current, this.legend);
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
  }

  private draw(): void {
    const sentences = [this.shown?.why, this.sentence].filter(Boolean);
    this.item.text = statusText(this.current, this.shown?.tier, this.legend);
    this.item.tooltip = sentences.join('\n');
    this.item.accessibilityInformation = { label: sentences.join('. ') };
    this.item.backgroundColor = needsAttention(this.current)
      ? new vscode.ThemeColor('statusBarItem.warningBackground')
      : undefined;
    this.item.show();
  }
}
