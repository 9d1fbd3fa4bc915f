// The user's settings, and what a workspace has no say in.

import * as vscode from 'vscode';
import { contributes } from '../package.json';
import { initializationOptions as options, SECTION } from './settings_values';

// What names a file or decides how the machine is used: taken from the user's own settings alone.
const PREFIX = `${SECTION}.trusted.`;
const TRUSTED = Object.keys(contributes.configuration.properties)
  .filter((name) => name.startsWith(PREFIX))
  .map((name) => name.slice(PREFIX.length));

// The user's values of these count beside the workspace's.
const SHARED = ['exclude', 'feedback.replay', 'tiers.policy', 'tiers.risk', 'tiers.delta', 'tiers.overrides'];

// What the server reads only when it starts. `completion.enabled` decides what it can do at all, which is said once.
const AT_START = ['server', 'serverPath', 'trusted', 'completion.enabled', ...SHARED];

/**
 * A setting as the user's own settings have it, or its default.
 *
 * VS Code keeps a workspace from changing declared keys of `"scope": "machine"`. A key that is not declared gets
 * through, so the workspace's values are not asked for in the first place.
 */
function ofUser<T>(key: string): T | undefined {
  const found = vscode.workspace.getConfiguration(SECTION).inspect<T>(key);
  return found?.globalValue ?? found?.defaultValue ?? undefined;
}

/** The program that the user wants started, by name or path; '' where they named none. */
export function serverPath(): string {
  return ofUser<string>('server.path') || ofUser<string>('serverPath') || '';
}

/** The Python that the user wants the server installed with; '' where they named none. */
export function pythonPath(): string {
  return ofUser<string>('server.python') || '';
}

export function initializationOptions(): object {
  const trusted = TRUSTED.map((key) => [key, ofUser(`trusted.${key}`)] as const);
  const own = SHARED.map((key) => [key, ofUser(key)] as const);
  const all: unknown = vscode.workspace.getConfiguration().get(SECTION);
  return options(all, Object.fromEntries(trusted), Object.fromEntries(own));
}

export async function setModel(name: string): Promise<void> {
  await vscode.workspace.getConfiguration(SECTION).update('trusted.model', name, vscode.ConfigurationTarget.Global);
}

/** Whether a change concerns what is only said when the server starts. */
export function needRestart(event: vscode.ConfigurationChangeEvent): boolean {
  return AT_START.some((key) => event.affectsConfiguration(`${SECTION}.${key}`));
}
