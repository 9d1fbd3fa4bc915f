import { delimiter } from 'node:path';
import { beforeEach, expect, it, vi } from 'vitest';
import { Commands } from '../src/commands';
import { ask, folders, registered, window } from './mock_vscode';

vi.mock('vscode', async () => await vi.importActual('./mock_vscode'));

const terminal = { show: vi.fn(), sendText: vi.fn() };
const session = { found: { program: '/env/bin/lsp-calib' as string | undefined }, install: vi.fn(async () => undefined) };
const folder = { name: 'app', uri: { toString: () => 'file:///app' } };

async function open(): Promise<void> {
  await (registered.get('lspCalib.terminal') as () => Promise<void>)();
}

beforeEach(() => {
  vi.clearAllMocks();
  registered.clear();
  folders.splice(0, folders.length, folder);
  session.found = { program: '/env/bin/lsp-calib' };
  window.createTerminal.mockReturnValue(terminal);
  const none = undefined as never; // parts that this command does not use
  new Commands(session as never, none, none, { state: 'ready' } as never, none, none).register();
});

it('opens in the folder, with the program on the PATH and a command that is typed, not run', async () => {
  await open();
  const path = ['/env/bin', process.env['PATH']].join(delimiter);
  expect(window.createTerminal).toHaveBeenCalledExactlyOnceWith({ name: 'lsp-calib', cwd: folder.uri, env: { PATH: path } });
  expect(terminal.show).toHaveBeenCalledOnce();
  expect(terminal.sendText.mock.calls).toEqual([['lsp-calib calibrate .', false]]);
});

it('offers to install the server where there is none', async () => {
  session.found = { program: undefined };
  await open();
  expect(session.install).toHaveBeenCalledOnce();
  expect(window.createTerminal).not.toHaveBeenCalled();
});

it('asks for a folder where none is open', async () => {
  folders.splice(0);
  await open();
  expect(window.createTerminal).not.toHaveBeenCalled();
  expect(ask.mock.calls[0]![0]).toContain('Open the folder of your project');
});
