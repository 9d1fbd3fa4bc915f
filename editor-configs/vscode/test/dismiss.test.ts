import { expect, it, vi } from 'vitest';
import { Commands } from '../src/commands';
import { registered } from './mock_vscode';

vi.mock('vscode', async () => await vi.importActual('./mock_vscode'));
vi.mock('vscode-languageclient/node', async () => await vi.importActual('./mock_client'));

// The server does not offer a dismissed suggestion again on the same line, so it must be told of the dismissal.
it.each([['abc', [['lsp-calib.rejected', { id: 'abc' }]]], [undefined, []]])(
  'Escape tells the server which suggestion was dismissed: %s',
  async (id, told) => {
    const badge = { id } as { id: string | undefined };
    const session = {
      ask: vi.fn(async () => undefined),
      hide: () => {
        badge.id = undefined;
      },
    };
    const commands = new Commands(session as never, badge as never, {} as never, {} as never, {} as never, {} as never);
    const all = commands.register();
    await (registered.get('lspCalib.hide') as () => Promise<void>)();
    expect(session.ask.mock.calls).toEqual(told);
    all.forEach((one) => one.dispose());
  },
);
