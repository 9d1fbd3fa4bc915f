// As much of VS Code as the tests need: settings, commands, documents, and a record of what the user was told.

import { vi } from 'vitest';
import { contributes } from '../package.json';

interface Values {
  readonly globalValue?: unknown;
  readonly workspaceValue?: unknown;
  /** By the folder's address. */
  readonly folderValues?: Readonly<Record<string, unknown>>;
}

/** By name, with the section: what the user, the workspace and its folders have set. */
export const settings = new Map<string, Values>();
const defaults = Object.fromEntries(
  contributes.configuration.flatMap(({ properties }) => Object.entries<{ default: unknown }>(properties)).map(([name, one]) => [name, one.default]),
);
export const registered = new Map<string, unknown>();
/** Who listens to an event of the workspace, by its name. */
export const listeners = new Map<string, (event: unknown) => unknown>();
export const trust = { given: true };
const nothing = { dispose: () => undefined };

export class Position {
  constructor(
    readonly line: number,
    readonly character: number,
  ) {}
  translate(lines: number, characters: number) {
    return new Position(this.line + lines, this.character + characters);
  }
  with({ character }: { character: number }) {
    return new Position(this.line, character);
  }
  isEqual({ line, character }: Position) {
    return this.line === line && this.character === character;
  }
}

export class Range {
  constructor(
    readonly start: Position,
    readonly end: Position,
  ) {}
  get isSingleLine() {
    return this.start.line === this.end.line;
  }
  contains({ line, character }: Position) {
    const after = line > this.start.line || (line === this.start.line && character >= this.start.character);
    return after && (line < this.end.line || (line === this.end.line && character <= this.end.character));
  }
  isEqual({ start, end }: Range) {
    return this.start.isEqual(start) && this.end.isEqual(end);
  }
}

export class Selection extends Range {
  get active() {
    return this.end;
  }
}

export class ThemeColor {
  constructor(readonly id: string) {}
}

export class MarkdownString {
  value = '';
  appendText(text: string) {
    this.value += text;
    return this;
  }
}

/** What an item of the status bar shows, by its id; undefined: it is hidden. */
export const bar = new Map<string, string | undefined>();

export const ViewColumn = { Active: -1 };
export const StatusBarAlignment = { Right: 2 };
export const TextEditorRevealType = { InCenterIfOutsideViewport: 2 };
export const DecorationRangeBehavior = { ClosedClosed: 1 };
export const Disposable = {
  from: (...all: { dispose(): unknown }[]) => ({ dispose: () => all.forEach((one) => one.dispose()) }),
};

function tree(valueOf: (values: Values, name: string) => unknown): Record<string, unknown> {
  const all: Record<string, unknown> = {};
  for (const name of new Set([...Object.keys(defaults), ...settings.keys()])) {
    const value = valueOf(settings.get(name) ?? {}, name);
    if (value === undefined) {
      continue;
    }
    const [, ...keys] = name.split('.');
    const last = keys.pop()!;
    const place = keys.reduce((inner, key) => (inner[key] ??= {}) as Record<string, unknown>, all);
    place[last] = value;
  }
  return all;
}

function merged(section: string, scope?: object): Record<string, unknown> {
  const all = tree(
    ({ globalValue, workspaceValue, folderValues }, name) => folderValues?.[`${scope}`] ?? workspaceValue ?? globalValue ?? defaults[name],
  );
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
export const active: { document: unknown; editor?: object } = { document: undefined };
export const documents: unknown[] = [];
export const editors: unknown[] = [];
export const folders: { name: string; uri: { toString(): string } }[] = [];

function on(name: string) {
  return (listener: (event: unknown) => unknown) => {
    listeners.set(name, listener);
    return { dispose: () => listeners.delete(name) };
  };
}

export const window = {
  get activeTextEditor() {
    return active.editor ?? (active.document && { document: active.document });
  },
  state: { focused: true },
  createTerminal: vi.fn(),
  createWebviewPanel: vi.fn(),
  get visibleTextEditors() {
    return editors;
  },
  createTextEditorDecorationType: (options: object) => ({ ...nothing, options }),
  createStatusBarItem: (id: string) => ({
    ...nothing,
    text: '',
    show() {
      bar.set(id, this.text);
    },
    hide: () => bar.set(id, undefined),
  }),
  showTextDocument: vi.fn<(document: unknown) => Promise<unknown>>(),
  onDidChangeTextEditorVisibleRanges: on('ranges'),
  onDidChangeVisibleTextEditors: on('editors'),
  onDidChangeTextEditorSelection: on('selection'),
  onDidChangeActiveTextEditor: on('editor'),
  onDidChangeWindowState: on('window'),
  showInformationMessage: ask,
  showQuickPick: vi.fn<(items: { label: string }[]) => Promise<unknown>>(async () => undefined),
  showErrorMessage: vi.fn<(message: string, ...answers: unknown[]) => Promise<unknown>>(async () => undefined),
  withProgress: (_options: unknown, work: (shown: object, cancellation: object) => unknown) =>
    work({ report: () => undefined }, { isCancellationRequested: false, onCancellationRequested: () => nothing }),
};
export const workspace = {
  get isTrusted() {
    return trust.given;
  },
  onDidChangeConfiguration: on('configuration'),
  onDidChangeTextDocument: on('text'),
  onDidSaveTextDocument: on('save'),
  onDidCloseTextDocument: on('close'),
  onDidChangeWorkspaceFolders: on('folders'),
  onDidGrantWorkspaceTrust: on('trust'),
  onWillSaveNotebookDocument: on('notebooks'),
  workspaceFolders: folders,
  textDocuments: documents,
  getConfiguration: (section?: string, scope?: object) => ({
    get: (path: string) =>
      (section ? path.split('.') : []).reduce<unknown>(
        (inner, key) => (inner as Record<string, unknown> | undefined)?.[key],
        merged(section ?? path, scope),
      ),
    // Of a section: the object of its settings in each place.
    inspect: (key: string) => {
      const name = section ? `${section}.${key}` : key;
      const { folderValues, ...values } = settings.get(name) ?? {};
      const ofFolder = { workspaceFolderValue: folderValues?.[`${scope}`], defaultValue: defaults[name] };
      return key === 'lspCalib' ? { globalValue: tree(({ globalValue }) => globalValue) } : { ...values, ...ofFolder };
    },
  }),
};
export const commands = { registerCommand, executeCommand: vi.fn(async () => undefined) };
export const languages = {
  getDiagnostics: () => [],
  match: (schemes: string[], { uri }: { uri: { scheme: string } }) => (schemes.includes(uri.scheme) ? 10 : 0),
};
export const Uri = { parse: (text: string) => ({ toString: () => text }) };
export const ProgressLocation = { Notification: 1, Window: 2 };
export const ConfigurationTarget = { Global: 1 };

export const TextDocumentSaveReason = { Manual: 1, AfterDelay: 2, FocusOut: 3 };
