// The next edit: a change that was made by hand, offered at the place where it probably belongs next. A server that
// announces `capabilities.experimental.lspCalib.nextEdit` is asked for it once an edit is complete.

import { posix } from 'node:path';
import * as vscode from 'vscode';
import type { LanguageClient, ServerCapabilities, StaticFeature } from 'vscode-languageclient/node';
import { percent, tierText } from './badge_text';
import { editWords, outOfSight, previewOf } from './next_edit_text';
import { badgeHasNumber, nextEditEnabled } from './settings';
import { nextEditIn, type Legend, type Tier } from './wire';

// From leaving the line, or saving, to the request; of rest after the last change.
export const SOON_MS = 100;
export const REST_MS = 1100;

type Client = Pick<LanguageClient, 'code2ProtocolConverter' | 'protocol2CodeConverter' | 'sendRequest'>;

interface Offer {
  readonly id: string;
  readonly document: vscode.TextDocument;
  readonly range: vscode.Range;
  readonly old: string;
  readonly text: string;
  readonly tier: Tier;
  readonly confidence: number | null;
  readonly reason: string;
}

/** The line on which a change leaves the cursor. */
function lineAfter({ range, text }: vscode.TextDocumentContentChangeEvent): number {
  return range.start.line + text.split(/\r\n|\r|\n/).length - 1;
}

function showsPlace({ document, visibleRanges }: vscode.TextEditor, offer: Offer): boolean {
  return document === offer.document && visibleRanges.some((range) => range.contains(offer.range.start));
}

export class NextEdits implements vscode.Disposable {
  private readonly struck = vscode.window.createTextEditorDecorationType({ textDecoration: 'line-through', opacity: '0.6' });
  private readonly place = vscode.window.createTextEditorDecorationType({ textDecoration: 'underline' });
  private readonly behind = vscode.window.createTextEditorDecorationType({});
  private readonly item = vscode.window.createStatusBarItem('lspCalib.nextEdit', vscode.StatusBarAlignment.Right, 99);
  private legend: Legend = {};
  private server: { readonly client: Client; readonly selector: vscode.DocumentSelector } | undefined;
  private readonly subscriptions: vscode.Disposable[] = [];
  private offer: Offer | undefined;
  /** The editors in which it is drawn. */
  private drawnIn: vscode.TextEditor[] = [];
  /** The last change that the server was not asked about; no line: the cursor has left it. */
  private changed: { readonly document: vscode.TextDocument; readonly line: number | undefined } | undefined;
  private timer: NodeJS.Timeout | undefined;
  /** Of the latest request: the answer to an earlier one, or to one before a change, is not shown. */
  private request = 0;
  private applying: vscode.TextDocument | undefined;

  constructor() {
    this.item.name = 'lsp-calib: next edit';
    this.item.command = 'lspCalib.nextEdit.go';
  }

  setLegend(legend: Legend): void {
    this.legend = legend;
  }

  /** Of a client, which initialises it whenever a server has started and clears it when that ends. */
  featureOf(client: Client): StaticFeature {
    return {
      fillClientCapabilities: () => undefined,
      getState: () => ({ kind: 'static' }),
      initialize: ({ experimental }: ServerCapabilities, selector) => {
        const told = (experimental as { lspCalib?: { nextEdit?: boolean } } | undefined)?.lspCalib;
        if (selector && told?.nextEdit === true && nextEditEnabled()) {
          this.begin(client, client.protocol2CodeConverter.asDocumentSelector(selector));
        }
      },
      clear: () => (this.server?.client === client ? this.end() : undefined),
    };
  }

  dispose(): void {
    this.end();
    vscode.Disposable.from(this.struck, this.place, this.behind, this.item).dispose();
  }

  /** Why the edit on offer has its tier; undefined if there is none. */
  why(): string | undefined {
    const { offer } = this;
    return offer && `next edit ${editWords(offer.old, offer.text)}: ${tierText({ ...offer, words: '' }, this.legend)}, ${percent(offer.confidence)} · ${offer.reason}`;
  }

  /** Goes to the edit on offer; at its place, applies it and goes on to the next one. */
  async go(): Promise<void> {
    const { offer } = this;
    const editor = vscode.window.activeTextEditor;
    if (!offer) {
      return;
    }
    if (editor?.document === offer.document && offer.range.contains(editor.selection.active)) {
      await this.apply();
    } else {
      await this.goTo(offer);
    }
  }

  /** Applies the edit on offer, and goes on to the next one. One that nobody has seen is gone to first. */
  async apply(): Promise<void> {
    const { offer, server } = this;
    const editor = vscode.window.activeTextEditor;
    if (!offer || !server) {
      return;
    }
    if (!editor || !showsPlace(editor, offer)) {
      return this.goTo(offer);
    }
    this.clear();
    this.applying = offer.document;
    const done = await editor.edit((edit) => edit.replace(offer.range, offer.text)).then(
      (applied) => applied,
      () => false,
    );
    this.applying = undefined;
    if (!done) {
      return;
    }
    const { start } = offer.range;
    const lines = offer.text.split(/\r\n|\r|\n/);
    const last = lines.at(-1)!.length;
    const end = new vscode.Position(start.line + lines.length - 1, lines.length === 1 ? start.character + last : last);
    editor.selection = new vscode.Selection(end, end);
    this.tell('lsp-calib.editApplied', offer.id);
    await this.ask(true);
  }

  /** Takes the edit off the screen, and tells the server that it was not wanted. */
  dismiss(): void {
    if (this.offer) {
      this.tell('lsp-calib.editDismissed', this.offer.id);
      this.clear();
    }
  }

  private begin(client: Client, selector: vscode.DocumentSelector): void {
    this.end();
    this.server = { client, selector };
    this.subscriptions.push(
      vscode.workspace.onDidChangeTextDocument((event) => this.onChange(event)),
      vscode.window.onDidChangeTextEditorSelection(({ textEditor }) => this.onMove(textEditor)),
      vscode.window.onDidChangeActiveTextEditor((editor) => {
        if (editor) {
          this.onMove(editor);
        }
        this.draw();
      }),
      vscode.workspace.onDidSaveTextDocument((document) => (document === this.changed?.document ? this.askIn(SOON_MS) : undefined)),
      vscode.workspace.onDidCloseTextDocument((document) => (document === this.offer?.document ? this.clear() : undefined)),
      vscode.window.onDidChangeTextEditorVisibleRanges(({ textEditor }) => (textEditor.document === this.offer?.document ? this.draw() : undefined)),
      vscode.window.onDidChangeVisibleTextEditors(() => this.draw()),
    );
  }

  private end(): void {
    vscode.Disposable.from(...this.subscriptions.splice(0)).dispose();
    clearTimeout(this.timer);
    this.changed = undefined;
    this.server = undefined;
    this.request += 1;
    this.clear();
  }

  private synchronises(document: vscode.TextDocument): boolean {
    return this.server !== undefined && vscode.languages.match(this.server.selector, document) > 0;
  }

  /** What was on offer is asked for anew once the edit is complete that has begun. */
  private onChange({ document, contentChanges }: vscode.TextDocumentChangeEvent): void {
    const [change] = contentChanges;
    if (!change || document === this.applying || !this.synchronises(document)) {
      return;
    }
    this.request += 1;
    this.clear();
    if (document === vscode.window.activeTextEditor?.document) {
      this.changed = { document, line: lineAfter(change) };
      this.askIn(REST_MS);
    }
  }

  private onMove(editor: vscode.TextEditor): void {
    const { changed } = this;
    if (!changed || changed.line === undefined || editor !== vscode.window.activeTextEditor) {
      return;
    }
    if (editor.document !== changed.document || editor.selection.active.line !== changed.line) {
      this.changed = { document: changed.document, line: undefined };
      this.askIn(SOON_MS);
    }
  }

  private askIn(milliseconds: number): void {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => void this.ask(false), milliseconds);
  }

  /** goesOn: to the edit, at once, if it is in this document and nobody has moved meanwhile. */
  private async ask(goesOn: boolean): Promise<void> {
    const { server } = this;
    const editor = vscode.window.activeTextEditor;
    if (!server || !editor || !this.synchronises(editor.document)) {
      return;
    }
    clearTimeout(this.timer);
    const { changed } = this;
    this.changed = undefined;
    const request = (this.request += 1);
    const { document, selection } = editor;
    const params = server.client.code2ProtocolConverter.asTextDocumentPositionParams(document, selection.active);
    // That the server has gone meanwhile is for the client to say.
    const found = await server.client.sendRequest<unknown>('lsp-calib/nextEdit', params).catch(() => undefined);
    if (request !== this.request) {
      return;
    }
    this.clear();
    const offer = this.offerOf(found, server.client);
    if (!offer) {
      this.changed = changed; // a slow server may think that the edit goes on: it is asked again once the line is left
      return;
    }
    this.offer = offer;
    this.draw();
    if (goesOn && offer.document === document && editor === vscode.window.activeTextEditor && editor.selection.isEqual(selection)) {
      await this.goTo(offer);
    }
  }

  /** What the server offers, in the terms of VS Code; nothing of a document that is not open. */
  private offerOf(found: unknown, { protocol2CodeConverter }: Client): Offer | undefined {
    const edit = nextEditIn(found);
    const uri = edit && protocol2CodeConverter.asUri(edit.uri).toString();
    const document = vscode.workspace.textDocuments.find((one) => one.uri.toString() === uri);
    if (!edit || !document) {
      return undefined;
    }
    const range = protocol2CodeConverter.asRange(edit.range);
    const { id, text, tier, confidence, reason } = edit;
    return { id, document, range, old: document.getText(range), text, tier, confidence, reason };
  }

  private tell(command: string, id: string): void {
    this.server?.client.sendRequest('workspace/executeCommand', { command, arguments: [{ id }] }).catch(() => undefined);
  }

  private async goTo({ document, range }: Offer): Promise<void> {
    const active = vscode.window.activeTextEditor;
    const shown = vscode.window.visibleTextEditors.find((one) => one.document === document);
    const editor =
      active?.document === document ? active : await vscode.window.showTextDocument(document, shown?.viewColumn);
    editor.selection = new vscode.Selection(range.start, range.start);
    editor.revealRange(range, vscode.TextEditorRevealType.InCenterIfOutsideViewport);
  }

  private clear(): void {
    if (this.offer) {
      this.offer = undefined;
      this.draw();
    }
  }

  /** The old text struck through in its place, the new one and the tier behind the end of the line: nothing there moves. */
  private draw(): void {
    const { offer } = this;
    const editors = offer ? vscode.window.visibleTextEditors.filter(({ document }) => document === offer.document) : [];
    const inSight = offer !== undefined && editors.some((editor) => showsPlace(editor, offer));
    // The keys first: who sees it may press one.
    void vscode.commands.executeCommand('setContext', 'lspCalib.nextEdit.offered', offer !== undefined);
    void vscode.commands.executeCommand('setContext', 'lspCalib.nextEdit.visible', inSight);
    for (const editor of this.drawnIn) {
      for (const kind of editors.includes(editor) ? [] : [this.struck, this.place, this.behind]) {
        editor.setDecorations(kind, []);
      }
    }
    this.drawnIn = editors;
    if (offer) {
      editors.forEach((editor) => this.drawIn(editor, offer));
    }
    this.showStatus(inSight ? undefined : offer);
  }

  private drawIn(editor: vscode.TextEditor, { document, range, old, text, tier, confidence }: Offer): void {
    const { start } = range;
    const line = document.lineAt(start.line).text;
    // The character behind the place: VS Code draws nothing of a range without any.
    const next = [...line.slice(start.character)][0]?.length ?? 0;
    const hoverMessage = new vscode.MarkdownString().appendText(this.why() ?? '');
    editor.setDecorations(this.struck, old === '' ? [] : [{ range, hoverMessage }]);
    editor.setDecorations(this.place, old === '' ? [{ range: new vscode.Range(start, start.translate(0, next)), hoverMessage }] : []);
    const end = start.with({ character: line.length });
    const before = {
      contentText: previewOf(old, text, line, start.character),
      backgroundColor: new vscode.ThemeColor('diffEditor.insertedTextBackground'),
      margin: '0 0 0 2em',
    };
    const badge = tierText({ tier, confidence, words: '' }, this.legend, badgeHasNumber());
    const after = { contentText: badge, color: new vscode.ThemeColor(`lspCalib.${tier}`), margin: '0 0 0 1em' };
    // Both sides of one decoration: several at one place VS Code draws in an order of its own.
    const renderOptions = text === '' ? { after } : { before, after };
    editor.setDecorations(this.behind, [{ range: new vscode.Range(end, end), renderOptions }]);
  }

  private showStatus(offer: Offer | undefined): void {
    if (!offer) {
      this.item.hide();
      return;
    }
    const here = offer.document === vscode.window.activeTextEditor?.document;
    const name = here ? undefined : posix.basename(offer.document.uri.path);
    this.item.text = outOfSight(offer, offer.range.start.line, name, this.legend);
    this.item.tooltip = this.why() ?? '';
    this.item.show();
  }
}
