// What can be done with the mark on an inserted suggestion: the light bulb's entries.

import * as vscode from 'vscode';

export class MarkActions implements vscode.CodeActionProvider {
  static readonly metadata = { providedCodeActionKinds: [vscode.CodeActionKind.QuickFix] };

  provideCodeActions(
    _document: vscode.TextDocument,
    _range: vscode.Range,
    context: vscode.CodeActionContext,
  ): vscode.CodeAction[] {
    return context.diagnostics
      .filter(({ source }) => source === 'lsp-calib')
      // "Mark as reviewed" is the server's.
      .map((mark) => action('Why this tier?', 'lspCalib.why', mark, mark.message));
  }
}

function action(title: string, command: string, mark: vscode.Diagnostic, argument: string | undefined): vscode.CodeAction {
  const made = new vscode.CodeAction(`${title} (lsp-calib)`, vscode.CodeActionKind.QuickFix);
  made.diagnostics = [mark];
  made.command = { title, command, arguments: argument === undefined ? [] : [argument] };
  return made;
}
