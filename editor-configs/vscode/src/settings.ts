// The settings: the user's own, and the few that a workspace may set.

import * as vscode from 'vscode';
import { contributes } from '../package.json';

export const SECTION = 'lspCalib';
// The extension's own: no server knows them, and what some of them name is started.
const OWN = ['server', 'badge'];
// What a workspace may set, and what the server asks for again when it changes. All else it reads when it starts.
const OF_WORKSPACE = ['languages', 'inlineCompletion.enabled', 'exclude'];
const PROPERTIES: Record<string, { scope: string }> = Object.assign({}, ...contributes.configuration.map(({ properties }) => properties));
const DECLARED = Object.keys(PROPERTIES);
const AT_START = DECLARED.filter((key) => ['machine', 'application'].includes(PROPERTIES[key]!.scope));

/**
 * A setting as the user's own settings have it, or its default.
 *
 * VS Code keeps a workspace from changing declared keys of `"scope": "machine"` and `"application"`. A key that is not declared
 * gets through, so the workspace's values are not asked for in the first place.
 */
function ofUser<T>(key: string): T | undefined {
  const found = vscode.workspace.getConfiguration(SECTION).inspect<T>(key);
  return found?.globalValue ?? found?.defaultValue ?? undefined;
}

/** The program that the user wants started, by name or path; '' where they named none. */
export function serverPath(): string {
  return ofUser<string>('server.path') || '';
}

/** The Python that the user wants the server installed with; '' where they named none. */
export function pythonPath(): string {
  return ofUser<string>('server.python') || '';
}

/** Whether a badge names the probability instead of the tier. */
export function badgeHasNumber(): boolean {
  return vscode.workspace.getConfiguration(SECTION).get('badge.number') === true;
}

/** Whether next edits are wanted. */
export function nextEditEnabled(): boolean {
  return ofUser<boolean | null>('nextEdit.enabled') !== false;
}

/**
 * What was set, as VS Code merges it; undefined where nobody has set it.
 *
 * The default is not a value: it would go before that of the user's `config.toml`.
 */
function ifSet(key: string, scope?: vscode.ConfigurationScope): unknown {
  const configuration = vscode.workspace.getConfiguration(SECTION, scope);
  const found = configuration.inspect(key);
  const places = [found?.globalValue, found?.workspaceValue, found?.workspaceFolderValue];
  return places.some((value) => value !== undefined && value !== null) ? configuration.get(key) : undefined;
}

/** The patterns of all places together: VS Code's value is that of one place, of the workspace rather than of its folders. */
function excluded(): unknown {
  const said = ifSet('exclude');
  const folders = vscode.workspace.workspaceFolders ?? [];
  const all = [said, ...folders.map(({ uri }) => ifSet('exclude', uri))];
  const patterns: unknown[] = all.filter((one) => Array.isArray(one)).flat();
  return patterns.length > 0 ? [...new Set(patterns)] : said;
}

/** The answer to `workspace/configuration`: what a workspace may set, as VS Code merges it, and what every folder excludes. */
export function ofWorkspace(): object {
  // VS Code keeps back what a workspace sets that is not trusted, but for `exclude`, which only adds.
  const all = OF_WORKSPACE.map((key) => [key, ifSet(key)] as const);
  return given([...all, ['exclude', excluded()]]);
}

/** `initializationOptions`: beside it all that the user's own settings say, also what no server knows, so that it is named. */
export function initializationOptions(): object {
  const user = (key: string): unknown => vscode.workspace.getConfiguration().inspect(key)?.globalValue;
  // In a profile, the object of the section lacks the user's own values for all profiles ("application"): each is asked for.
  const keys = new Set([...DECLARED, ...keysOf(user(SECTION), SECTION)]);
  const all = [...keys].map((key) => [key.slice(SECTION.length + 1), user(key)] as const);
  const own = all.filter(([key]) => !OWN.includes(key.split('.')[0]!));
  return { ...ofWorkspace(), trusted: given(own.map(([key, value]) => [key.replace(/^trusted\./, ''), value])) };
}

/** The names of an object's values, with those of the objects in it. */
function keysOf(value: unknown, name: string): string[] {
  const isGroup = typeof value === 'object' && value !== null && !Array.isArray(value);
  return isGroup ? Object.entries(value).flatMap(([key, inner]) => keysOf(inner, `${name}.${key}`)) : [name];
}

/** The object without what is unset, which an empty text is, too. */
function given(all: (readonly [string, unknown])[]): object {
  return Object.fromEntries(all.filter(([, value]) => value !== null && value !== undefined && value !== ''));
}

export async function setModel(name: string): Promise<void> {
  await vscode.workspace.getConfiguration(SECTION).update('trusted.model', name, vscode.ConfigurationTarget.Global);
}

/** Whether a change concerns what is only said when the server starts. */
export function needRestart(event: vscode.ConfigurationChangeEvent): boolean {
  return AT_START.some((name) => event.affectsConfiguration(name));
}
