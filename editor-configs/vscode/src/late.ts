// Answers that take longer than VS Code waits.
//
// From 2026 VS Code gives up a request for ghost text 750 ms after a key, to show its list of completions instead
// (`editor.quickSuggestions`: "offWhenInlineCompletions", the default: microsoft/vscode issue 293443). A model on the
// user's machine is often slower. So the server is left at work while the cursor stays, and VS Code is told to ask again
// once there is an answer: the server then has it in memory.

import * as vscode from 'vscode';

// A request that ends earlier was ended by the next key, whose change of the document may be told only afterwards.
const GIVEN_UP_AFTER_MS = 400;

type Items = vscode.InlineCompletionItem[] | vscode.InlineCompletionList | null | undefined;

interface Place {
  readonly document: vscode.TextDocument;
  readonly version: number;
  readonly position: vscode.Position;
}

function isHere({ document, version, position }: Place): boolean {
  const editor = vscode.window.activeTextEditor;
  return editor?.document === document && document.version === version && editor.selection.active.isEqual(position);
}

export class LateAnswers implements vscode.Disposable {
  private waiting: { readonly place: Place; readonly source: vscode.CancellationTokenSource } | undefined;
  private readonly subscriptions = [
    vscode.workspace.onDidChangeTextDocument(() => this.leave()),
    vscode.window.onDidChangeTextEditorSelection(() => this.leave()),
    vscode.window.onDidChangeActiveTextEditor(() => this.leave()),
  ];

  /** Waits for the answer of `ask`, which is cancelled when the user goes on, and not when VS Code gives up waiting. */
  async follow(
    document: vscode.TextDocument,
    position: vscode.Position,
    token: vscode.CancellationToken,
    ask: (token: vscode.CancellationToken) => vscode.ProviderResult<Items>,
  ): Promise<Items> {
    this.stop();
    const place = { document, version: document.version, position };
    const source = new vscode.CancellationTokenSource();
    const begun = Date.now();
    this.waiting = { place, source };
    const subscription = token.onCancellationRequested(() => {
      if (Date.now() - begun < GIVEN_UP_AFTER_MS || !isHere(place)) {
        source.cancel();
      }
    });
    try {
      const items = await ask(source.token);
      const late = token.isCancellationRequested && !source.token.isCancellationRequested;
      const some = (Array.isArray(items) ? items : (items?.items ?? [])).length > 0;
      if (late && some && isHere(place)) {
        void vscode.commands.executeCommand('editor.action.inlineSuggest.trigger', { explicit: false });
      }
      return items;
    } finally {
      subscription.dispose();
      if (this.waiting?.source === source) {
        this.waiting = undefined;
      }
      source.dispose();
    }
  }

  /** Cancels what is still waited for: completions are paused, or the server is restarted. */
  stop(): void {
    this.waiting?.source.cancel();
    this.waiting = undefined;
  }

  dispose(): void {
    this.stop();
    vscode.Disposable.from(...this.subscriptions).dispose();
  }

  private leave(): void {
    if (this.waiting && !isHere(this.waiting.place)) {
      this.stop();
    }
  }
}
