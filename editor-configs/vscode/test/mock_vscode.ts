// As much of VS Code as the tests need: settings, commands, documents, and a record of what the user was told.

import { vi } from 'vitest';

interface Values {
  readonly globalValue?: unknown;
  readonly workspaceValue?: unknown;
}

/** By name, with the section: what the user and the workspace have set. */
export const settings = new Map<string, Values>();
export const registered = new Map<string, unknown>();
const nothing = { dispose: () => undefined };

function merged(section: string): Record<string, unknown> {
  const all: Record<string, unknown> = {};
  for (const [name, { globalValue, workspaceValue }] of settings) {
    const [, ...keys] = name.split('.');
    const last = keys.pop()!;
    const place = keys.reduce((inner, key) => (inner[key] ??= {}) as Record<string, unknown>, all);
    place[last] = workspaceValue ?? globalValue;
  }
  return section === 'lspCalib' ? all : {};
}

function registerCommand(name: string, body: unknown) {
  if (registered.has(name)) {
    throw new Error(`command '${name}' already exists`);
  }
  registered.set(name, body);
  return { dispose: () => registered.delete(name) };
}

export const ask = vi.fn<(message: string, ...answers: unknown[]) => Promise<unknown>>(async () => undefined);
export const active: { document: unknown } = { document: undefined };
export const documents: unknown[] = [];
export const folders: { name: string; uri: { toString(): string } }[] = [];

export const window = {
  get activeTextEditor() {
    return active.document && { document: active.document };
  },
  showInformationMessage: ask,
  showErrorMessage: vi.fn(async () => undefined),
  withProgress: (_options: unknown, work: (shown: object, cancellation: object) => unknown) =>
    work({ report: () => undefined }, { isCancellationRequested: false, onCancellationRequested: () => nothing }),
};
export const workspace = {
  workspaceFolders: folders,
  textDocuments: documents,
  getWorkspaceFolder: (uri: object) => folders.find((folder) => `${uri}`.startsWith(`${folder.uri}/`)),
  getConfiguration: (section?: string) => ({
    get: (key: string) => (section ? merged(section)[key] : merged(key)),
    inspect: (key: string) => settings.get(`${section}.${key}`),
  }),
};
export const commands = { registerCommand, executeCommand: vi.fn(async () => undefined) };
export const languages = { getDiagnostics: () => [] };
export const Uri = { parse: (text: string) => ({ toString: () => text }) };
export const ProgressLocation = { Notification: 1, Window: 2 };
export const ConfigurationTarget = { Global: 1 };
