'use strict';
// The extension: starts `lsp-calib serve`, draws the badge of a suggestion, shows the server's status.
// Everything else (documents, diagnostics, hover, inline completion, server commands) is vscode-languageclient's.

const vscode = require('vscode');
const { LanguageClient } = require('vscode-languageclient/node');
const { Badge } = require('./badge');
const settings = require('./settings');
const { StatusItem } = require('./status');

const WHY = 'Why is nothing here?';
const PAUSE = 'Pause';
const RESUME = 'Resume';
// For how long, in minutes; undefined: until it is resumed.
const PAUSES = [
  { label: 'Until I resume', minutes: undefined },
  { label: '10 minutes', minutes: 10 },
  { label: '1 hour', minutes: 60 },
];
const HAD_ONE = 'The last request for a completion here had a suggestion, or there was none yet.';

let client;
let badge;
let status;

class Client extends LanguageClient {
  error(message, data, show) {
    // 'force' is "could not be started" alone: start() says it better.
    super.error(message, data, show === 'force' ? false : show);
  }
}

function newClient() {
  const server = { command: settings.serverPath(), args: ['serve'] };
  return new Client('lspCalib', 'lsp-calib', server, {
    documentSelector: [{ scheme: 'file' }, { scheme: 'untitled' }],
    initializationOptions: settings.initializationOptions,
    synchronize: { configurationSection: 'lspCalib' },
    middleware: {
      provideInlineCompletionItems: (document, position, context, token, next) =>
        badge.follow(document, position, token, next(document, position, context, token)),
      workspace: {
        configuration: async (params, token, next) => {
          const answers = await next(params, token);
          return answers.map((answer, i) => settings.forServer(params.items[i].section, answer));
        },
        didChangeConfiguration: (_sections, next) => next(['lspCalib']),
      },
    },
  });
}

async function start() {
  client = newClient();
  client.onNotification('lsp-calib/status', (state) => status.update(state));
  status.update({ state: 'starting', message: 'starting the server' });
  try {
    await client.start();
  } catch (error) {
    status.update({ state: 'error', message: `the server did not start: ${error.message}` });
    const choice = await vscode.window.showErrorMessage(
      `lsp-calib did not start from "${settings.serverPath()}". ` +
        'Install it (pip install lsp-calib) or set lspCalib.serverPath to the program.',
      'Open settings'
    );
    if (choice) {
      await vscode.commands.executeCommand('workbench.action.openSettings', 'lspCalib.serverPath');
    }
    return;
  }
  badge.setLegend(client.initializeResult?.capabilities.experimental?.lspCalib?.badges);
}

async function restart() {
  badge.clear();
  await client.dispose().catch(() => undefined); // a server that never ran cannot be stopped
  await start();
}

/** The server's answer to one of its commands; undefined, and a message, where there is none. */
async function ask(command, ...args) {
  try {
    return await client.sendRequest('workspace/executeCommand', { command, arguments: args });
  } catch (error) {
    void vscode.window.showErrorMessage(`lsp-calib: ${error.message}`);
    return undefined;
  }
}

async function refit() {
  const progress = { location: vscode.ProgressLocation.Window, title: 'lsp-calib: refitting' };
  const result = await vscode.window.withProgress(progress, () => ask('lsp-calib.refit'));
  if (result) {
    const change = result.promoted ? 'New calibrator' : 'Calibrator unchanged';
    void vscode.window.showInformationMessage(`${change}: ${result.reason} (labels: ${result.n})`);
  }
}

async function rollback() {
  const result = await ask('lsp-calib.rollbackCalibrator');
  if (result) {
    void vscode.window.showInformationMessage(`lsp-calib: ${result.message}`);
  }
}

/** The server has the page opened in a browser, or says in a message where it is. */
async function showReport() {
  await ask('lsp-calib.showReport');
}

async function exportFeedback() {
  const filters = { 'JSON lines': ['jsonl'] };
  const place = await vscode.window.showSaveDialog({ title: 'Export feedback to a new file', filters });
  const result = place && (await ask('lsp-calib.exportFeedback', { path: place.fsPath }));
  if (result) {
    void vscode.window.showInformationMessage(`lsp-calib: ${result.n} suggestions were exported to ${result.path}`);
  }
}

async function purgeFeedback() {
  const question = 'Remove everything that lsp-calib has stored of your suggestions?';
  const detail = 'It cannot be undone. Your calibrators stay.';
  const choice = await vscode.window.showWarningMessage(question, { modal: true, detail }, 'Remove');
  const result = choice && (await ask('lsp-calib.purgeFeedback'));
  if (result) {
    void vscode.window.showInformationMessage(`lsp-calib: ${result.n} suggestions were removed`);
  }
}

async function showStatus() {
  const state = await ask('lsp-calib.status');
  if (!state) {
    return;
  }
  status.update(state);
  client.outputChannel.appendLine(JSON.stringify(state, null, 2));
  const other = state.state === 'paused' ? RESUME : PAUSE;
  const choice = await vscode.window.showInformationMessage(status.sentence(), WHY, other, 'Details');
  if (choice === WHY) {
    await explain();
  } else if (choice === PAUSE) {
    await pause();
  } else if (choice === RESUME) {
    await resume();
  } else if (choice) {
    client.outputChannel.show();
  }
}

async function explain() {
  const document = vscode.window.activeTextEditor?.document;
  const uri = document && client.code2ProtocolConverter.asUri(document.uri);
  const answer = await ask('lsp-calib.explain', { uri });
  if (answer !== undefined) {
    void vscode.window.showInformationMessage(answer ? answer.message : HAD_ONE);
  }
}

/** The server asks for the change itself, and says why if there is none. */
async function insertSummary() {
  const editor = vscode.window.activeTextEditor;
  if (editor) {
    const converter = client.code2ProtocolConverter;
    const uri = converter.asUri(editor.document.uri);
    await ask('lsp-calib.insertSummary', { uri, position: converter.asPosition(editor.selection.active) });
  }
}

/** No ghost text until it is asked for or resumed. minutes: without asking for how long. */
async function pause(minutes) {
  const placeHolder = 'Pause the completions that come by themselves';
  const chosen = typeof minutes === 'number' ? { minutes } : await vscode.window.showQuickPick(PAUSES, { placeHolder });
  if (chosen) {
    badge.clear();
    await ask('lsp-calib.pause', chosen.minutes === undefined ? {} : { minutes: chosen.minutes });
    await vscode.commands.executeCommand('editor.action.inlineSuggest.hide');
  }
}

async function resume() {
  await ask('lsp-calib.resume');
}

async function hide() {
  badge.clear();
  await vscode.commands.executeCommand('editor.action.inlineSuggest.hide');
}

async function activate(context) {
  badge = new Badge();
  status = new StatusItem('lspCalib.showStatus');
  // The names differ from the server's own commands (`lsp-calib.*`), which the client registers itself.
  context.subscriptions.push(
    badge,
    status,
    vscode.commands.registerCommand('lspCalib.refit', refit),
    vscode.commands.registerCommand('lspCalib.rollback', rollback),
    vscode.commands.registerCommand('lspCalib.showReport', showReport),
    vscode.commands.registerCommand('lspCalib.exportFeedback', exportFeedback),
    vscode.commands.registerCommand('lspCalib.purgeFeedback', purgeFeedback),
    vscode.commands.registerCommand('lspCalib.showStatus', showStatus),
    vscode.commands.registerCommand('lspCalib.explain', explain),
    vscode.commands.registerCommand('lspCalib.insertSummary', insertSummary),
    vscode.commands.registerCommand('lspCalib.pause', pause),
    vscode.commands.registerCommand('lspCalib.resume', resume),
    vscode.commands.registerCommand('lspCalib.hide', hide),
    vscode.workspace.onDidChangeConfiguration((event) => (settings.needRestart(event) ? restart() : undefined))
  );
  await start();
}

function deactivate() {
  return client?.stop();
}

module.exports = { activate, deactivate };
