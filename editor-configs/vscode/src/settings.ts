// The user's settings, and what a workspace has no say in.

import * as vscode from 'vscode';
import { contributes } from '../package.json';
import { initializationOptions as options, SECTION } from './settings_values';

// What names a file or decides how the machine is used: taken from the user's own settings alone.
const PREFIX = `${SECTION}.trusted.`;
const TRUSTED = Object.keys(contributes.configuration.properties)
  .filter((name) => name.startsWith(PREFIX))
  .map((name) => name.slice(PREFIX.length));

// What a workspace may set.
const FREE = Object.entries(contributes.configuration.properties)
  .filter(([, { scope }]) => scope !== 'machine')
  .map(([name]) => name.slice(SECTION.length + 1));

// The user's values of these are told apart: beside them a workspace's count only where they are stricter.
const SHARED = [
  'exclude',
  'tiers.policy',
  'tiers.preset',
  'tiers.acceptFrom',
  'tiers.rejectBelow',
  'tiers.risk',
  'tiers.confidence',
  'tiers.overrides',
  'feedback.enabled',
  'autoRefit',
  'diagnostics.enabled',
  'diagnostics.severity.accept',
  'diagnostics.severity.review',
  'diagnostics.severity.reject',
  'confidence.measure',
  'hideBelow',
  'modelIdleSeconds',
];

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

/** Whether a badge names the probability instead of the tier. */
export function badgeHasNumber(): boolean {
  return vscode.workspace.getConfiguration(SECTION).get('badge.number') === true;
}

/** The patterns of all places together: VS Code's value is that of one place, of the workspace rather than of its folders. */
function excluded(): unknown {
  const said: unknown = vscode.workspace.getConfiguration(SECTION).get('exclude');
  const folders = vscode.workspace.workspaceFolders ?? [];
  const all = [said, ...folders.map(({ uri }): unknown => vscode.workspace.getConfiguration(SECTION, uri).get('exclude'))];
  const patterns: unknown[] = all.filter((one) => Array.isArray(one)).flat();
  return patterns.length > 0 ? [...new Set(patterns)] : said;
}

/**
 * Section `lspCalib` for the server, with what every folder excludes.
 *
 * VS Code keeps back declared keys of a workspace that is not trusted. Of such a one nothing but `exclude` is asked for.
 */
export function ofAllPlaces(): object {
  const all: unknown = vscode.workspace.isTrusted
    ? vscode.workspace.getConfiguration().get(SECTION)
    : Object.fromEntries(FREE.map((key) => [key, ofUser(key)]));
  return { ...(all as object | undefined), exclude: excluded() };
}

export function initializationOptions(): object {
  const trusted = TRUSTED.map((key) => [key, ofUser(`trusted.${key}`)] as const);
  const own = SHARED.map((key) => [key, ofUser(key)] as const);
  return options(ofAllPlaces(), Object.fromEntries(trusted), Object.fromEntries(own));
}

export async function setModel(name: string): Promise<void> {
  await vscode.workspace.getConfiguration(SECTION).update('trusted.model', name, vscode.ConfigurationTarget.Global);
}

/** Whether a change concerns what is only said when the server starts. */
export function needRestart(event: vscode.ConfigurationChangeEvent): boolean {
  return AT_START.some((key) => event.affectsConfiguration(`${SECTION}.${key}`));
}
