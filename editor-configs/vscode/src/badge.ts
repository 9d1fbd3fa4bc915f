// The badge: the tier of the suggestion that is on screen, at the end of its line.

import * as vscode from 'vscode';
import { badgeText, cursorAfter, goesAlong, rejectedFrom, surePart, tierText, verdictOf, whyThisTier, writtenOver } from './badge_text';
import { badgeHasNumber } from './settings';
import { suggestionIn, type Legend, type Suggestion } from './wire';

// VS Code moves it to the end that the line has when the badge comes there. The next key may have come before: at the end
// that is known here the badge would stand before what that has written, and push the ghost text aside.
const BEYOND = 1_000_000;

type Items = vscode.InlineCompletionItem[] | vscode.InlineCompletionList | null | undefined;

/** Of the suggestion on screen: mark and tier, and why it has that tier, with its probability. */
export interface OnScreen {
  readonly tier: string;
  readonly why: string;
}

/** One of the suggestions on screen. */
interface Offer {
  readonly suggestion: Suggestion;
  readonly line: string; // what stands before the suggestion on its line, and the suggestion
  readonly rank: number | undefined; // the number that VS Code gives it, undefined for a single one
}

interface Shown {
  readonly editor: vscode.TextEditor;
  readonly version: number;
  readonly position: vscode.Position; // of the cursor
  readonly start: number; // the character where the suggestions begin
  readonly behind: string; // what stands on the line behind what they replace
  readonly offers: readonly Offer[];
}

const textOf = ({ insertText }: vscode.InlineCompletionItem) => (typeof insertText === 'string' ? insertText : insertText.value);

/** Whether VS Code has anything to show of the item: it must go on from the text before the cursor. */
function goesOn(item: vscode.InlineCompletionItem, document: vscode.TextDocument, position: vscode.Position): boolean {
  const text = textOf(item);
  const start = item.range?.start ?? position;
  const before = document.getText(new vscode.Range(start, position));
  return text.startsWith(before) && text !== document.getText(item.range ?? new vscode.Range(start, position));
}

/**
 * What makes the rejected lines of a block fainter. VS Code draws ghost text in one colour, the lines below its first in a
 * space of their own: so the background lies over these, half transparent. Its place is counted in lines from the first
 * one, in CSS that the API passes on, as of `textDecoration`.
 */
function veilOver(suggestion: Suggestion, position: vscode.Position): vscode.DecorationOptions[] {
  const from = rejectedFrom(suggestion);
  if (from === undefined || !suggestion.lines) {
    return [];
  }
  const top = Math.max(from, 1);
  const before = {
    contentText: '\u200b',
    backgroundColor: new vscode.ThemeColor('editor.background'),
    width: '100%',
    height: `${100 * (suggestion.lines.length - top)}%`,
    textDecoration: `none; position: absolute; left: 0; top: ${100 * top}%; opacity: 0.6; pointer-events: none`,
  };
  const start = position.with({ character: 0 });
  return [{ range: new vscode.Range(start, start), renderOptions: { before } }];
}

export class BadgeView implements vscode.Disposable {
  private readonly decoration = vscode.window.createTextEditorDecorationType({
    rangeBehavior: vscode.DecorationRangeBehavior.ClosedClosed,
  });
  private legend: Legend = {};
  private number = badgeHasNumber();
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
      // Told before the selection that a key moves.
      vscode.workspace.onDidChangeTextDocument((event) => this.changed(event)),
      vscode.window.onDidChangeActiveTextEditor(() => this.clear()),
      vscode.window.onDidChangeWindowState(({ focused }) => (focused ? undefined : this.clear())),
      vscode.workspace.onDidChangeConfiguration(() => {
        this.number = badgeHasNumber();
        if (this.shown) {
          this.draw(this.shown);
        }
      }),
    ];
  }

  setLegend(legend: Legend): void {
    this.legend = legend;
  }

  /** The id of the first suggestion on screen, if there is one. */
  get id(): string | undefined {
    return this.shown?.offers[0]?.suggestion.id;
  }

  /** Why the suggestions on screen have their tiers; nothing where none is shown. */
  why(): string | undefined {
    return this.shown?.offers.map(({ suggestion }) => whyThisTier(suggestion, this.legend)).join('\n');
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
    const here = editor?.document === document && document.version === version && vscode.window.state.focused;
    if (token.isCancellationRequested || !here) {
      return result; // of another moment: VS Code will not show it
    }
    const all = Array.isArray(result) ? result : (result?.items ?? []);
    const items = all.filter((item) => goesOn(item, document, position));
    if (this.shown && !this.shown.offers[0]?.suggestion.lines && suggestionIn(items[0]?.command?.arguments?.[0])?.lines) {
      // VS Code would keep the line on screen, and have the block that begins with it as the next one.
      this.clear();
      void vscode.commands.executeCommand('editor.action.inlineSuggest.hide');
      void vscode.commands.executeCommand('editor.action.inlineSuggest.trigger', { explicit: false }); // it is made
      return result;
    }
    this.show(editor, position, items);
    return result;
  }

  /** Puts in the part that can be trusted of the first suggestion on screen; false if there is none. The rest stays. */
  async acceptSure(): Promise<boolean> {
    const { editor, position, start, behind, offers } = this.shown ?? {};
    const suggestion = offers?.[0]?.suggestion;
    if (!editor || !position || start === undefined || behind === undefined || !suggestion) {
      return false;
    }
    const part = surePart(suggestion, position.character - start);
    if (!part) {
      return false;
    }
    const line = editor.document.lineAt(position.line).text;
    const closers = line.slice(position.character, line.length - behind.length);
    const end = position.translate(0, writtenOver(part, closers));
    const done = await editor.edit((edit) => edit.replace(new vscode.Range(position, end), part));
    if (!done) {
      return false;
    }
    const lines = part.split('\n');
    const after = lines.length === 1 ? position.translate(0, part.length) : new vscode.Position(position.line + lines.length - 1, lines.at(-1)!.length);
    editor.selection = new vscode.Selection(after, after);
    await vscode.commands.executeCommand('editor.action.inlineSuggest.trigger', { explicit: false });
    return true;
  }

  clear(): void {
    if (this.shown) {
      this.shown.editor.setDecorations(this.decoration, []);
      this.shown = undefined;
      this.onChange(undefined);
      this.tellWhetherVisible(false);
    }
  }

  dispose(): void {
    this.clear();
    vscode.Disposable.from(...this.subscriptions, this.decoration).dispose();
  }

  private isAt(selections: readonly vscode.Selection[]): boolean {
    return selections.length === 1 && selections[0]!.active.isEqual(this.shown!.position);
  }

  /** The badge of what is typed along stays until the answer to that key takes its place; any other change ends it. */
  private changed({ document, contentChanges }: vscode.TextDocumentChangeEvent): void {
    const { shown } = this;
    if (!shown || document !== shown.editor.document || document.version === shown.version) {
      return;
    }
    const [change, more] = contentChanges;
    const { position, behind, offers } = shown;
    if (!change || more || change.range.start.line !== position.line || !change.range.isSingleLine || change.text.includes('\n')) {
      this.clear();
      return;
    }
    const line = document.lineAt(position.line).text;
    const at = cursorAfter(change.text, change.range.start.character);
    const left = at > position.character ? offers.filter((offer) => goesAlong(offer.line, line, at, behind)) : [];
    if (left.length === 0) {
      this.clear();
      return;
    }
    const next = { ...shown, version: document.version, position: position.with({ character: at }), offers: left };
    if (left.length === offers.length) {
      this.shown = next; // VS Code moves the badge with the end of its line
    } else {
      this.draw(next);
    }
  }

  private show(editor: vscode.TextEditor, position: vscode.Position, items: readonly vscode.InlineCompletionItem[]): void {
    const range = items[0]?.range ?? new vscode.Range(position, position);
    const line = editor.document.lineAt(position.line).text;
    const start = range.start.character;
    // VS Code does not tell which of several is on screen, but numbers them: the badge has the same numbers.
    const offers = items.flatMap((item, i) => {
      const suggestion = suggestionIn(item.command?.arguments?.[0]);
      const rank = items.length > 1 ? i + 1 : undefined;
      return suggestion ? [{ suggestion, line: line.slice(0, start) + textOf(item), rank }] : [];
    });
    if (offers.length === 0 || (this.shown && this.shown.editor !== editor)) {
      this.clear();
    }
    if (offers.length > 0) {
      const behind = line.slice(range.end.character);
      this.draw({ editor, version: editor.document.version, position, start, behind, offers });
    }
  }

  /** In place: one change of the decorations, so that nothing is taken away and drawn again between two keys. */
  private draw(shown: Shown): void {
    const { editor, position, offers } = shown;
    const first = verdictOf(offers[0]!.suggestion);
    // One decoration, in the first one's colour: VS Code draws several in an order of its own.
    const texts = offers.map(({ suggestion, rank }) => badgeText(verdictOf(suggestion), this.legend, rank, this.number));
    const after = {
      contentText: texts.join(' \u2003'),
      color: new vscode.ThemeColor(`lspCalib.${first.tier}`), // from the theme: package.json has the defaults
      margin: '0 0 0 2em',
    };
    const end = position.with({ character: BEYOND });
    const badge = { range: new vscode.Range(end, end), renderOptions: { after } };
    editor.setDecorations(this.decoration, [badge, ...veilOver(offers[0]!.suggestion, position)]);
    const visible = this.shown !== undefined;
    this.shown = shown;
    // VS Code's own toolbar takes the hover of a line with ghost text: that of the status bar says why.
    this.onChange({ tier: tierText(first, this.legend, this.number), why: this.why() ?? '' });
    if (!visible) {
      this.tellWhetherVisible(true);
    }
  }

  private tellWhetherVisible(visible: boolean): void {
    void vscode.commands.executeCommand('setContext', 'lspCalib.badgeVisible', visible);
  }
}
