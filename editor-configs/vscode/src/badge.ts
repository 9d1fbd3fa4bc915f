// The badge: the tier of the suggestion that is on screen, at the end of its line.

import * as vscode from 'vscode';
import { badgeText, markOf, surePart, verdictOf, whyThisTier, writtenOver, type Verdict } from './badge_text';
import { suggestionIn, type Legend, type Suggestion } from './wire';

type Items = vscode.InlineCompletionItem[] | vscode.InlineCompletionList | null | undefined;

/** Of the suggestion on screen: mark and tier, and why it has that tier, with its probability. */
export interface OnScreen {
  readonly tier: string;
  readonly why: string;
}

interface Shown {
  readonly editor: vscode.TextEditor;
  readonly version: number;
  readonly position: vscode.Position;
  readonly suggestions: readonly Suggestion[];
  readonly first: vscode.InlineCompletionItem | undefined; // the item of the first of them
}

/** Whether VS Code has anything to show of the item: it must go on from the text before the cursor. */
function goesOn(item: vscode.InlineCompletionItem, document: vscode.TextDocument, position: vscode.Position): boolean {
  const text = typeof item.insertText === 'string' ? item.insertText : item.insertText.value;
  const start = item.range?.start ?? position;
  const before = document.getText(new vscode.Range(start, position));
  return text.startsWith(before) && text !== document.getText(item.range ?? new vscode.Range(start, position));
}

export class BadgeView implements vscode.Disposable {
  private readonly decoration = vscode.window.createTextEditorDecorationType({
    rangeBehavior: vscode.DecorationRangeBehavior.ClosedClosed,
  });
  private legend: Legend = {};
  private shown: Shown | undefined;
  private readonly subscriptions: vscode.Disposable[];

  /** onChange: is told of what is shown, undefined when it goes. */
  constructor(private readonly onChange: (shown: OnScreen | undefined) => void) {
    this.subscriptions = [
      vscode.window.onDidChangeTextEditorSelection(({ textEditor, selections }) => {
        if (textEditor === this.shown?.editor && !this.isAt(selections)) {
          this.clear();
        }
      }),
      vscode.workspace.onDidChangeTextDocument(({ document }) => {
        if (document === this.shown?.editor.document && document.version !== this.shown.version) {
          this.clear();
        }
      }),
      vscode.window.onDidChangeActiveTextEditor(() => this.clear()),
    ];
  }

  setLegend(legend: Legend): void {
    this.legend = legend;
  }

  /** The id of the first suggestion on screen, if there is one. */
  get id(): string | undefined {
    return this.shown?.suggestions[0]?.id;
  }

  /** Why the suggestions on screen have their tiers; nothing where none is shown. */
  why(): string | undefined {
    return this.shown?.suggestions.map((suggestion) => whyThisTier(suggestion, this.legend)).join('\n');
  }

  /** Waits for the answer to a request for completions, draws its badge, returns it unchanged. */
  async follow(
    document: vscode.TextDocument,
    position: vscode.Position,
    token: vscode.CancellationToken,
    pending: vscode.ProviderResult<Items>,
  ): Promise<Items> {
    const version = document.version;
    const result = await pending;
    const editor = vscode.window.activeTextEditor;
    if (token.isCancellationRequested || editor?.document !== document || document.version !== version) {
      return result; // of another moment: VS Code will not show it
    }
    const all = Array.isArray(result) ? result : (result?.items ?? []);
    const items = all.filter((item) => goesOn(item, document, position));
    this.draw(editor, position, items);
    return result;
  }

  /** Puts in the part that can be trusted of the first suggestion on screen; false if there is none. The rest stays. */
  async acceptSure(): Promise<boolean> {
    const { editor, position, suggestions, first } = this.shown ?? {};
    const suggestion = suggestions?.[0];
    if (!editor || !position || !suggestion || !first) {
      return false;
    }
    const range = first.range ?? new vscode.Range(position, position);
    const part = surePart(suggestion, position.character - range.start.character);
    if (!part) {
      return false;
    }
    const closers = editor.document.getText(new vscode.Range(position, range.end));
    const end = position.translate(0, writtenOver(part, closers));
    const done = await editor.edit((edit) => edit.replace(new vscode.Range(position, end), part));
    if (!done) {
      return false;
    }
    const after = position.translate(0, part.length);
    editor.selection = new vscode.Selection(after, after);
    await vscode.commands.executeCommand('editor.action.inlineSuggest.trigger', { explicit: false });
    return true;
  }

  clear(): void {
    if (this.shown) {
      this.shown.editor.setDecorations(this.decoration, []);
      this.shown = undefined;
      this.tell(undefined);
    }
  }

  dispose(): void {
    this.clear();
    vscode.Disposable.from(...this.subscriptions, this.decoration).dispose();
  }

  private isAt(selections: readonly vscode.Selection[]): boolean {
    return selections.length === 1 && selections[0]!.active.isEqual(this.shown!.position);
  }

  private draw(
    editor: vscode.TextEditor,
    position: vscode.Position,
    items: readonly vscode.InlineCompletionItem[],
  ): void {
    this.clear();
    const suggestions = items.map((item) => suggestionIn(item.command?.arguments?.[0]));
    const known = suggestions.filter((suggestion) => suggestion !== undefined);
    const first = known[0];
    if (!first) {
      return;
    }
    const end = editor.document.lineAt(position.line).range.end;
    // VS Code does not tell which of several is on screen, but numbers them: the badge has the same numbers. It is one
    // decoration, in the first one's colour: VS Code draws several in an order of its own.
    const texts = suggestions.flatMap((suggestion, i) => {
      const rank = suggestions.length > 1 ? i + 1 : undefined;
      return suggestion ? [badgeText(verdictOf(suggestion), this.legend, rank)] : [];
    });
    const after = {
      contentText: texts.join(' \u2003'),
      color: new vscode.ThemeColor(`lspCalib.${verdictOf(first).tier}`), // from the theme: package.json has the defaults
      margin: '0 0 0 2em',
    };
    editor.setDecorations(this.decoration, [{ range: new vscode.Range(end, end), renderOptions: { after } }]);
    const item = items[suggestions.indexOf(first)];
    this.shown = { editor, version: editor.document.version, position, suggestions: known, first: item };
    this.tell(verdictOf(first));
  }

  private tell(verdict: Verdict | undefined): void {
    // VS Code's own toolbar takes the hover of a line with ghost text: the number is in that of the status bar.
    this.onChange(verdict && { tier: `${markOf(verdict.tier, this.legend)} ${verdict.tier}`, why: this.why() ?? '' });
    void vscode.commands.executeCommand('setContext', 'lspCalib.badgeVisible', verdict !== undefined);
  }
}
