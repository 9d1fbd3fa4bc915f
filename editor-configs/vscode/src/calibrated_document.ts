// Which document tells the server what to calibrate: its folder, and its language.

import * as vscode from 'vscode';

// Those that the server can calibrate (lsp_calib/syntax/languages). A document of another would leave it to guess.
export const LANGUAGES = [
  'c',
  'cpp',
  'csharp',
  'go',
  'java',
  'javascript',
  'javascriptreact',
  'php',
  'python',
  'ruby',
  'rust',
  'typescript',
  'typescriptreact',
];

/** The document in the active editor if it lies in the folder, otherwise another open one; only in such a language. */
export function calibratedDocument(folder: vscode.WorkspaceFolder): vscode.TextDocument | undefined {
  const active = vscode.window.activeTextEditor?.document;
  const open = [...(active ? [active] : []), ...vscode.workspace.textDocuments];
  return open.find(
    ({ uri, languageId }) =>
      uri.scheme === 'file' &&
      LANGUAGES.includes(languageId) &&
      vscode.workspace.getWorkspaceFolder(uri)?.uri.toString() === folder.uri.toString(),
  );
}
