'use strict';
// What the server is told of the user's settings, and what a workspace has no say in.

const vscode = require('vscode');

const SECTION = 'lspCalib';

// What names a file or decides how the machine is used: taken from the user's own settings alone.
const PREFIX = `${SECTION}.trusted.`;
const TRUSTED = Object.keys(require('./package.json').contributes.configuration.properties)
  .filter((name) => name.startsWith(PREFIX))
  .map((name) => name.slice(PREFIX.length));

// The user's values of these count beside the workspace's.
const SHARED = ['exclude', 'tiers.policy', 'tiers.risk', 'tiers.delta', 'tiers.overrides'];

/**
 * A setting as the user's own settings have it, or its default.
 *
 * VS Code keeps a workspace from changing declared keys of `"scope": "machine"`. A key that is not declared gets
 * through, so the workspace's values are not asked for in the first place.
 */
function ofUser(key) {
  const found = vscode.workspace.getConfiguration(SECTION).inspect(key);
  return found?.globalValue ?? found?.defaultValue ?? undefined;
}

/** The program to start. */
function serverPath() {
  return ofUser('serverPath') || 'lsp-calib';
}

/** The object without unset (null) values, at every depth; undefined where nothing is left. */
function pruned(value) {
  if (value === null || typeof value !== 'object' || Array.isArray(value)) {
    return value ?? undefined;
  }
  const kept = Object.entries(value)
    .map(([key, inner]) => [key, pruned(inner)])
    .filter(([, inner]) => inner !== undefined);
  return kept.length > 0 ? Object.fromEntries(kept) : undefined;
}

/** The answer to one item of `workspace/configuration`: only what was set, and nothing that needs trust. */
function forServer(section, answer) {
  if (section === SECTION) {
    const { serverPath: _path, trusted: _trusted, ...rest } = answer ?? {};
    return pruned(rest) ?? {};
  }
  if (/^lspCalib\.(serverPath|trusted)(\.|$)/.test(section ?? '')) {
    return null;
  }
  return pruned(answer) ?? null;
}

/** initializationOptions: the settings, and beside them those that only the user may make. */
function initializationOptions() {
  const all = vscode.workspace.getConfiguration().get(SECTION);
  const trusted = pruned(Object.fromEntries(TRUSTED.map((key) => [key, ofUser(`trusted.${key}`)])));
  // A workspace's own values would take the place of the user's; this way they can only be stricter.
  const own = pruned(Object.fromEntries(SHARED.map((key) => [key, ofUser(key)])));
  return { ...forServer(SECTION, all), trusted: { ...trusted, ...own } };
}

/** Whether a change concerns what is only said when the server starts. */
function needRestart(event) {
  return ['serverPath', 'trusted', ...SHARED.slice(1)].some((key) => event.affectsConfiguration(`${SECTION}.${key}`));
}

module.exports = { serverPath, initializationOptions, forServer, needRestart };
