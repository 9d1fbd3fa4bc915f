'use strict';
// The badge: tier and probability of the suggestion that is on screen, at the end of its line.

const vscode = require('vscode');

const TIERS = ['accept', 'review', 'reject'];
const FALLBACK = {
  accept: { mark: '●', color: 'green' },
  review: { mark: '●', color: 'yellow' },
  reject: { mark: '●', color: 'red' },
};
// Each theme has these, readable on its background and told apart (charts.yellow is olive in some light themes).
const THEME_COLORS = {
  green: 'charts.green',
  yellow: 'editorWarning.foreground',
  red: 'editorError.foreground',
};

/** The suggestion object an inline completion item carries, or undefined for an item without one. */
function suggestionOf(item) {
  const suggestion = item?.command?.arguments?.[0];
  return TIERS.includes(suggestion?.tier) ? suggestion : undefined;
}

/** What the badge of a suggestion says: of a block, how far its lines are to accept, if they are not all. */
function verdictOf({ tier, confidence, lines }) {
  const through = lines?.findIndex((line) => line.tier !== 'accept') ?? -1;
  return through > 0
    ? { tier: 'accept', words: `accept through line ${through}`, confidence: lines[through - 1].confidence }
    : { tier, words: tier, confidence };
}

/** Whether VS Code has anything to show of the item: it must go on from the text before the cursor. */
function goesOn(item, document, position) {
  const text = typeof item.insertText === 'string' ? item.insertText : item.insertText.value;
  const start = item.range?.start ?? position;
  const before = document.getText(new vscode.Range(start, position));
  return text.startsWith(before) && text !== document.getText(item.range ?? new vscode.Range(start, position));
}

class Badge {
  constructor() {
    this._decoration = vscode.window.createTextEditorDecorationType({
      rangeBehavior: vscode.DecorationRangeBehavior.ClosedClosed,
    });
    this._legend = {};
    this._shown = undefined; // {editor, version, position} while a badge is drawn
    this._subscriptions = [
      vscode.window.onDidChangeTextEditorSelection(({ textEditor, selections }) => {
        if (textEditor === this._shown?.editor && !this._isAt(selections)) {
          this.clear();
        }
      }),
      vscode.workspace.onDidChangeTextDocument(({ document }) => {
        if (document === this._shown?.editor.document && document.version !== this._shown.version) {
          this.clear();
        }
      }),
      vscode.window.onDidChangeActiveTextEditor(() => this.clear()),
    ];
  }

  /** badges: `capabilities.experimental.lspCalib.badges` of the server, or undefined. */
  setLegend(badges) {
    this._legend = badges ?? {};
  }

  /** Waits for the answer to a request for completions, draws its badge, returns it unchanged. */
  async follow(document, position, token, pending) {
    const version = document.version;
    const result = await pending;
    const editor = vscode.window.activeTextEditor;
    if (token.isCancellationRequested || editor?.document !== document || document.version !== version) {
      return result; // of another moment: VS Code will not show it
    }
    const all = Array.isArray(result) ? result : (result?.items ?? []);
    const items = all.filter((item) => goesOn(item, document, position));
    this._draw(editor, position, items.map(suggestionOf));
    return result;
  }

  clear() {
    if (this._shown) {
      this._shown.editor.setDecorations(this._decoration, []);
      this._shown = undefined;
      void vscode.commands.executeCommand('setContext', 'lspCalib.badgeVisible', false);
    }
  }

  dispose() {
    this.clear();
    this._decoration.dispose();
    vscode.Disposable.from(...this._subscriptions).dispose();
  }

  _isAt(selections) {
    return selections.length === 1 && selections[0].active.isEqual(this._shown.position);
  }

  _draw(editor, position, suggestions) {
    this.clear();
    const end = editor.document.lineAt(position.line).range.end;
    // VS Code does not tell which of several is on screen, but numbers them: badges bear the same numbers.
    const badges = suggestions.flatMap((suggestion, i) => {
      if (!suggestion) {
        return []; // carries none
      }
      const verdict = verdictOf(suggestion);
      const contentText = (suggestions.length > 1 ? `${i + 1}: ` : '') + this._text(verdict);
      const after = { contentText, color: this._color(verdict.tier), margin: '0 0 0 2em' };
      return [{ range: new vscode.Range(end, end), renderOptions: { after } }];
    });
    if (badges.length > 0) {
      editor.setDecorations(this._decoration, badges.reverse()); // the last is drawn first
      this._shown = { editor, version: editor.document.version, position };
      void vscode.commands.executeCommand('setContext', 'lspCalib.badgeVisible', true);
    }
  }

  _text({ tier, words, confidence }) {
    const mark = this._legend[tier]?.mark ?? FALLBACK[tier].mark;
    // Where probabilities cannot be had or believed there is none to show.
    const percent = typeof confidence === 'number' ? ` ${Math.round(confidence * 100)} %` : '';
    return `${mark} ${words}${percent}`;
  }

  _color(tier) {
    const named = this._legend[tier]?.color;
    return new vscode.ThemeColor(THEME_COLORS[named] ?? THEME_COLORS[FALLBACK[tier].color]);
  }
}

module.exports = { Badge };
