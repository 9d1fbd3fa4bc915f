'use strict';
// The status bar item: what the server last said of itself (`lsp-calib/status`).

const vscode = require('vscode');

// All of one width, so that the bar does not jump at every keystroke.
const ICONS = {
  starting: '$(loading~spin)',
  loading: '$(loading~spin)',
  ready: '$(pass)',
  busy: '$(sync~spin)',
  paused: '$(debug-pause)',
  noModel: '$(warning)',
  error: '$(error)',
};

class StatusItem {
  constructor(command) {
    this._item = vscode.window.createStatusBarItem('lspCalib.status', vscode.StatusBarAlignment.Right, 100);
    this._item.name = 'lsp-calib';
    this._item.command = command;
    this._state = { state: 'starting' };
  }

  /** state: the parameters of `lsp-calib/status`. */
  update(state) {
    this._state = state;
    const calm = ['ready', 'busy'].includes(state.state);
    const name = calm && state.model ? state.model : `lsp-calib: ${state.state}`;
    this._item.text = `${ICONS[state.state] ?? '$(question)'} ${name}`;
    this._item.tooltip = this.sentence();
    this._item.backgroundColor = ['error', 'noModel'].includes(state.state)
      ? new vscode.ThemeColor('statusBarItem.warningBackground')
      : undefined;
    this._item.show();
  }

  /** The status in words. */
  sentence() {
    const { state, message, model, calibrator, note, tiers, latencyMs } = this._state;
    const parts = [`lsp-calib: ${message || state}`];
    if (model) {
      parts.push(`model ${model}`);
    }
    if (calibrator) {
      parts.push(`calibrator ${calibrator.state} (${calibrator.source}, ${calibrator.n} labels)`);
    }
    if (note) {
      parts.push(note);
    }
    if (tiers) {
      parts.push(`shown: ${tiers.accept} accept, ${tiers.review} review, ${tiers.reject} reject`);
    }
    if (typeof latencyMs?.p50 === 'number') {
      parts.push(`median ${Math.round(latencyMs.p50)} ms`);
    }
    return parts.join(' · ');
  }

  dispose() {
    this._item.dispose();
  }
}

module.exports = { StatusItem };
