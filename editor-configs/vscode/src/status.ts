// The status bar item: what the server last said of itself, and the tier of the suggestion on screen.

import * as vscode from 'vscode';
import { needsAttention, statusSentence, statusText } from './status_text';
import type { Status } from './wire';

export class StatusItem implements vscode.Disposable {
  private readonly item = vscode.window.createStatusBarItem('lspCalib.status', vscode.StatusBarAlignment.Right, 100);
  private current: Status = { state: 'starting' };
  private tier: string | undefined;

  constructor(command: string) {
    this.item.name = 'lsp-calib';
    this.item.command = command;
  }

  get state(): string {
    return this.current.state;
  }

  get sentence(): string {
    return statusSentence(this.current);
  }

  update(status: Status): void {
    this.current = status;
    this.draw();
  }

  /** tier: mark and tier of the suggestion on screen. */
  showTier(tier: string | undefined): void {
    this.tier = tier;
    this.draw();
  }

  dispose(): void {
    this.item.dispose();
  }

  private draw(): void {
    this.item.text = statusText(this.current, this.tier);
    this.item.tooltip = this.sentence;
    this.item.accessibilityInformation = { label: `${this.sentence}${this.tier ? `, suggestion: ${this.tier}` : ''}` };
    this.item.backgroundColor = needsAttention(this.current)
      ? new vscode.ThemeColor('statusBarItem.warningBackground')
      : undefined;
    this.item.show();
  }
}
