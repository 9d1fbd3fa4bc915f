// Where the cursor is, told to a server that announces `capabilities.experimental.lspCalib.cursor`: at rest it evaluates
// the prompt for that place, before the first key there.

import * as vscode from 'vscode';
import type { DocumentSelector, FeatureState, LanguageClient, ServerCapabilities, StaticFeature } from 'vscode-languageclient/node';
import { cursorAfter } from './badge_text';

export const EVERY_MS = 300;
// VS Code tells of an editor right before it puts the cursor into its place there.
export const OPENING_MS = 50;

type Client = Pick<LanguageClient, 'code2ProtocolConverter' | 'protocol2CodeConverter' | 'sendNotification'>;

interface Place {
  readonly document: vscode.TextDocument;
  readonly position: vscode.Position;
}

/** Where an edit leaves the cursor; undefined where there are several. */
function endOf(changes: readonly vscode.TextDocumentContentChangeEvent[]): vscode.Position | undefined {
  const [change, more] = changes;
  if (!change || more) {
    return undefined;
  }
  const { start } = change.range;
  const lines = change.text.split(/\r\n|\r|\n/);
  const last = lines.at(-1)!;
  return lines.length === 1 ? start.with({ character: cursorAfter(last, start.character) }) : new vscode.Position(start.line + lines.length - 1, last.length);
}

/** The client initialises it whenever a server has started, after the documents were opened there, and clears it when that ends. */
export class CursorFeature implements StaticFeature {
  private readonly subscriptions: vscode.Disposable[] = [];
  private selector: vscode.DocumentSelector = [];
  /** The place that the server knows: told last, or that of the last edit, which the document tells. */
  private known: Place | undefined;
  private pause: NodeJS.Timeout | undefined;

  constructor(private readonly client: Client) {}

  fillClientCapabilities(): void {}

  getState(): FeatureState {
    return { kind: 'static' };
  }

  initialize({ experimental }: ServerCapabilities, selector: DocumentSelector | undefined): void {
    if (!selector || (experimental as { lspCalib?: { cursor?: boolean } } | undefined)?.lspCalib?.cursor !== true) {
      return;
    }
    this.selector = this.client.protocol2CodeConverter.asDocumentSelector(selector);
    this.subscriptions.push(
      vscode.workspace.onDidChangeTextDocument(({ document, contentChanges }) => {
        if (contentChanges.length > 0 && this.synchronises(document)) {
          const position = endOf(contentChanges);
          this.known = position && { document, position };
        }
      }),
      vscode.window.onDidChangeTextEditorSelection(({ textEditor }) => (textEditor === vscode.window.activeTextEditor ? this.moved() : undefined)),
      vscode.window.onDidChangeActiveTextEditor(() => (this.pause === undefined ? this.wait(OPENING_MS) : undefined)),
    );
    this.moved();
  }

  clear(): void {
    vscode.Disposable.from(...this.subscriptions.splice(0)).dispose();
    clearTimeout(this.pause);
    this.pause = undefined;
    this.known = undefined;
  }

  private synchronises(document: vscode.TextDocument): boolean {
    return vscode.languages.match(this.selector, document) > 0;
  }

  private moved(): void {
    if (this.pause === undefined) {
      this.tell();
    }
  }

  private wait(milliseconds: number): void {
    this.pause = setTimeout(() => {
      this.pause = undefined;
      this.tell();
    }, milliseconds);
  }

  /** Tells where the cursor is, if the server does not know that, and after a pause where it has gone meanwhile. */
  private tell(): void {
    const { document, selection } = vscode.window.activeTextEditor ?? {};
    const position = selection?.active;
    if (!document || !position || !this.synchronises(document)) {
      return;
    }
    if (document === this.known?.document && position.isEqual(this.known.position)) {
      return;
    }
    this.known = { document, position };
    this.wait(EVERY_MS);
    const params = this.client.code2ProtocolConverter.asTextDocumentPositionParams(document, position);
    // That the server has gone meanwhile is for the client to say.
    this.client.sendNotification('lsp-calib/cursor', params).catch(() => undefined);
  }
}
