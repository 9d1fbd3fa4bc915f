import { readFileSync } from 'node:fs';
import { beforeEach, describe, expect, it, vi } from 'vitest';
import { LANGUAGES } from '../src/calibrated_document';
import { Commands } from '../src/commands';
import { active, ask, documents, folders, registered, trust, window } from './mock_vscode';

vi.mock('vscode', async () => await vi.importActual('./mock_vscode'));

const document = (path: string, languageId: string) => ({ uri: { scheme: 'file', toString: () => `file://${path}` }, languageId });
const server = vi.fn(async () => undefined);
const session = { ask: server, uriOf: (of: ReturnType<typeof document>) => `${of.uri}` };

async function calibrate(): Promise<void> {
  await (registered.get('lspCalib.calibrateWorkspace') as () => Promise<void>)();
}

beforeEach(() => {
  vi.clearAllMocks();
  trust.given = true;
  registered.clear();
  documents.splice(0);
  folders.splice(0, folders.length, { name: 'app', uri: { toString: () => 'file:///app' } });
  active.document = undefined;
  ask.mockImplementation(async (_message, ...answers) => answers.at(-1));
  const none = undefined as never; // parts that this command does not use
  new Commands(session as never, none, { state: 'ready' } as never, none, none).register();
});

describe('Calibrate on this workspace', () => {
  it('sends the document of the active editor, whose language is calibrated', async () => {
    active.document = document('/app/b.ts', 'typescript');
    documents.push(document('/app/a.js', 'javascript'), active.document);
    await calibrate();
    expect(server).toHaveBeenCalledExactlyOnceWith('lsp-calib.calibrateWorkspace', { uri: 'file:///app/b.ts' });
    expect(ask.mock.calls[0]![0]).toContain('app (typescript)');
  });

  it('sends another open document where the active one is elsewhere, or is no code', async () => {
    documents.push(document('/other/a.py', 'python'), document('/app/README.md', 'markdown'), document('/app/a.js', 'javascript'));
    for (const shown of documents.slice(0, 2)) {
      active.document = shown;
      await calibrate();
      expect(server).toHaveBeenLastCalledWith('lsp-calib.calibrateWorkspace', { uri: 'file:///app/a.js' });
    }
  });

  it('asks for a file to be opened where none tells the language', async () => {
    active.document = document('/application/a.py', 'python');
    await calibrate();
    expect(server).not.toHaveBeenCalled();
    expect(ask.mock.calls).toEqual([[expect.stringContaining('Open a file of app in the language to calibrate')]]);
  });

  it.each([true, false])('is in the menu only in a workspace that is trusted: %s', async (given) => {
    trust.given = given;
    await (registered.get('lspCalib.menu') as () => Promise<void>)();
    const labels = window.showQuickPick.mock.calls[0]![0].map(({ label }) => label);
    expect(labels.some((label) => label.includes('Calibrate'))).toBe(given);
    expect(labels.length).toBeGreaterThan(5);
  });

  it('is refused in a workspace that is not trusted, whoever asks for it', async () => {
    trust.given = false;
    documents.push(document('/app/a.py', 'python'));
    await calibrate();
    expect(server).not.toHaveBeenCalled();
    expect(ask.mock.calls).toEqual([[expect.stringContaining('Trust the workspace first')]]);
  });

  it('knows the languages that the server can calibrate', () => {
    const table = readFileSync('../../lsp_calib/syntax/languages/__init__.py', 'utf8');
    expect(LANGUAGES).toEqual(Array.from(table.matchAll(/^ {4}"(\w+)": /gm), ([, name]) => name));
  });
});
