import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { LogOutputChannel } from 'vscode';
import type { Installer } from '../src/install/installer';
import { Session, type Views } from '../src/session';
import { answers, clients, notified, RevealOutputChannelOn, slow } from './mock_client';
import { folders, listeners, registered, settings, TextDocumentSaveReason, window } from './mock_vscode';

vi.mock('vscode', async () => await vi.importActual('./mock_vscode'));
vi.mock('vscode-languageclient/node', async () => await vi.importActual('./mock_client'));

const program = process.execPath; // any program that is there
const states: string[] = [];
const installer = {
  program: undefined as string | undefined,
  lacksPython: false,
  shipped: '/extension/server',
  update: vi.fn(async () => undefined),
  offerUpdate: vi.fn(async () => false),
  offer: vi.fn(async (_makeWay: () => Promise<void>) => false),
};

let current: Session | undefined;

function session(): Session {
  const views = {
    badge: { why: () => undefined, setLegend: () => undefined },
    late: { stop: () => undefined },
    nextEdits: { featureOf: () => ({}), setLegend: () => undefined },
    status: { update: ({ state }: { state: string }) => states.push(state), setLegend: () => undefined },
  };
  const log = { info: () => undefined, error: () => undefined };
  current = new Session(views as unknown as Views, installer as unknown as Installer, log as unknown as LogOutputChannel);
  return current;
}

const running = () => clients.filter(({ state }) => state === 'running').length;
const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));
const never = new Promise<never>(() => undefined);

afterEach(async () => {
  vi.useRealTimers();
  await current?.stop();
});

beforeEach(() => {
  vi.clearAllMocks();
  window.showErrorMessage.mockImplementation(async () => undefined);
  clients.splice(0);
  notified.splice(0);
  folders.splice(0);
  states.splice(0);
  registered.clear();
  settings.clear();
  settings.set('lspCalib.server.path', { globalValue: program });
  installer.program = undefined;
  installer.lacksPython = false;
  slow.start = () => pause(20);
});

it('says that what it sends as trusted is of the user alone', async () => {
  await session().start(false);
  expect(clients.map(({ server }) => server.args)).toEqual([['serve', '--trust-editor']]);
});

it('starts every server in the folder of the extension, whatever folder is open', async () => {
  folders.push({ name: 'app', uri: { toString: () => 'file:///app' } });
  await session().start(false);
  installer.program = program;
  settings.clear();
  await current!.restart();
  expect(clients.map(({ server }) => server.options.cwd)).toEqual(['/extension/server', '/extension/server']);
});

it('does not tell the server of a notebook that VS Code saves by itself', async () => {
  session().watch();
  await current!.start(false);
  const notebook = { uri: { toString: () => 'file:///app/book.ipynb' } };
  const told = vi.fn(async () => undefined);
  const save = async (reason: number) => {
    listeners.get('notebooks')!({ notebook, reason });
    await clients[0]!.options.middleware.notebooks.didSave(notebook, told);
  };
  await save(TextDocumentSaveReason.AfterDelay);
  expect(told).not.toHaveBeenCalled();
  await save(TextDocumentSaveReason.Manual);
  expect(told).toHaveBeenCalledOnce();
});

describe('a server that ends', () => {
  it('leaves what VS Code asked it in the log alone', async () => {
    await session().start(false);
    expect(clients.map(({ options }) => options.revealOutputChannelOn)).toEqual([RevealOutputChannelOn.Never]);
  });

  it.each([
    [-32099, 'Cannot call write after a stream was destroyed', 'lsp-calib: the server ended before it answered. Try again once it runs.'],
    [-32097, 'Pending response rejected since connection got disposed', 'lsp-calib: the server ended before it answered. Try again once it runs.'],
    [-32602, 'lsp-calib: there is no such function.', 'lsp-calib: there is no such function.'],
  ])('is said of the command that was asked: %i', async (code, message, said) => {
    answers.next = () => Promise.reject(Object.assign(new Error(message), { code }));
    const tested = session();
    await tested.start(false);
    await vi.waitFor(() => expect(running()).toBe(1));
    expect(await tested.ask('lsp-calib.refit')).toBeUndefined();
    expect(window.showErrorMessage.mock.calls).toEqual([[said]]);
  });
});

describe('starts and stops that overlap', () => {
  it.each([0, 5, 15, 30, 60])('leave one server, and no other unstopped: restarts %i ms apart', async (between) => {
    const tested = session();
    const all = [tested.start(false)];
    for (let i = 0; i < 3; i++) {
      await pause(between);
      all.push(tested.restart());
    }
    await Promise.all(all);
    await vi.waitFor(() => expect(running()).toBe(1));
    expect(clients.filter(({ disposed }) => !disposed)).toHaveLength(1);
    expect(clients.at(-1)?.state).toBe('running');
    expect(window.showErrorMessage).not.toHaveBeenCalled();
    await tested.stop();
    expect(running()).toBe(0);
    expect(registered.size).toBe(0);
  });

  it('are one restart where several are asked for at once', async () => {
    const tested = session();
    await tested.start(false);
    await Promise.all([tested.restart(), tested.restart(), tested.restart()]);
    expect(clients).toHaveLength(2);
  });

  it('end a server that is still starting', async () => {
    const tested = session();
    await tested.start(false);
    await tested.stop();
    expect(clients.map(({ state }) => state)).toEqual(['stopped']);
    expect(window.showErrorMessage).not.toHaveBeenCalled();
  });

  it('do not wait for a server that hangs, nor for a message that nobody answers', async () => {
    vi.useFakeTimers();
    window.showErrorMessage.mockImplementation(() => never);
    slow.start = () => never;
    const tested = session();
    await tested.start(false);
    slow.start = async () => undefined;
    const again = tested.restart();
    await vi.advanceTimersByTimeAsync(20_000);
    await again;
    expect(clients.map(({ state }) => state)).toEqual(['failed', 'running']);
    slow.start = () => Promise.reject(new Error('broken'));
    void tested.restart();
    await vi.advanceTimersByTimeAsync(100);
    expect(window.showErrorMessage).toHaveBeenCalledOnce();
    slow.start = async () => undefined;
    void tested.restart();
    await vi.advanceTimersByTimeAsync(100);
    expect(clients.at(-1)?.state).toBe('running');
    expect(clients.slice(0, -1).every(({ disposed }) => disposed)).toBe(true);
  });

  it('take no notice of the end of a server that was replaced', async () => {
    const tested = session();
    await tested.start(false);
    await tested.restart();
    await vi.waitFor(() => expect(running()).toBe(1));
    states.splice(0);
    expect(clients[0]!.options.errorHandler.closed().action).toBe(1);
    expect(states).toEqual([]);
    expect(clients[1]!.options.errorHandler.closed().action).toBe(2);
    expect(states).toEqual(['starting']);
  });
});

describe('a server that cannot be started', () => {
  it('is not started again when its process ends after it has refused, and the reason stays', async () => {
    const reason = 'The state folder is open to others: chmod 700 it.';
    slow.start = () => Promise.reject(Object.assign(new Error(reason), { code: -32803 }));
    await session().start(false);
    await vi.waitFor(() => expect(window.showErrorMessage).toHaveBeenCalledOnce());
    slow.start = async () => undefined;
    clients[0]!.closed();
    await pause(30);
    expect(running()).toBe(0);
    expect(states).toEqual(['starting', 'error']);
    expect(window.showErrorMessage.mock.calls).toEqual([[expect.stringContaining(`${reason} Editing goes on`), 'Restart', 'Show log']]);
  });

  it('is said to have ended where nobody reads what it is asked', async () => {
    slow.start = () => Promise.reject(Object.assign(new Error('write EPIPE'), { code: -32099 }));
    await session().start(false);
    await vi.waitFor(() => expect(window.showErrorMessage).toHaveBeenCalledOnce());
    expect(window.showErrorMessage.mock.calls[0]![0]).toContain('it ended before it was ready');
    expect(clients).toHaveLength(1);
  });

  it('is said with its reason where that is a text alone', async () => {
    slow.start = () => Promise.reject('spawn ENOENT');
    await session().start(false);
    await vi.waitFor(() => expect(window.showErrorMessage).toHaveBeenCalledOnce());
    expect(window.showErrorMessage.mock.calls[0]![0]).toContain(`did not start from ${program}: spawn ENOENT`);
  });

  it('is to be installed again where the Python is gone that the extension has installed it with', async () => {
    settings.clear();
    installer.program = program;
    installer.lacksPython = true;
    window.showErrorMessage.mockImplementation(async (_message, ...all) => all.find((one) => one === 'Install again'));
    slow.start = () => Promise.reject('spawn ENOENT');
    await session().start(false);
    await vi.waitFor(() => expect(installer.offer).toHaveBeenCalledOnce());
    expect(window.showErrorMessage.mock.calls).toEqual([[expect.stringContaining('Python'), 'Install again']]);
  });
});

describe('*Install the server…* beside a server that runs', () => {
  beforeEach(() => {
    settings.clear();
    installer.program = program;
  });

  it('leaves it and what is said of it, where the answer is no', async () => {
    const tested = session();
    await tested.start(false);
    await vi.waitFor(() => expect(running()).toBe(1));
    states.splice(0);
    await tested.install();
    expect(states).toEqual([]);
    expect(clients.map(({ state }) => state)).toEqual(['running']);
  });

  it('ends it before its files are replaced, and starts the new one', async () => {
    const tested = session();
    await tested.start(false);
    await vi.waitFor(() => expect(running()).toBe(1));
    states.splice(0);
    const atWork: number[] = [];
    installer.offer.mockImplementationOnce(async (makeWay) => {
      await makeWay();
      atWork.push(running());
      return true;
    });
    await tested.install();
    await vi.waitFor(() => expect(running()).toBe(1));
    expect(atWork).toEqual([0]);
    expect([...new Set(states)]).toEqual(['installing', 'starting']);
  });
});

describe('a folder that is added to the workspace', () => {
  it('has the server ask for the settings again, which has what that folder excludes', async () => {
    const tested = session();
    tested.watch();
    await tested.start(false);
    await vi.waitFor(() => expect(running()).toBe(1));
    settings.set('lspCalib.exclude', { workspaceValue: ['all/**'], folderValues: { 'file:///b': ['secret/**'] } });
    folders.push({ name: 'b', uri: { toString: () => 'file:///b' } });
    await listeners.get('folders')!({});
    expect(notified).toEqual(['workspace/didChangeConfiguration']);
    const { configuration } = clients[0]!.options.middleware.workspace;
    const asked = { items: [{ section: 'lspCalib' }, { section: 'lspCalib.tiers' }] };
    expect(configuration(asked)).toEqual([{ exclude: ['all/**', 'secret/**'] }, null]);
  });
});

it('a workspace that is trusted from now on has the server started with its settings', async () => {
  const tested = session();
  tested.watch();
  await tested.start(false);
  await listeners.get('trust')!(undefined);
  await vi.waitFor(() => expect(running()).toBe(1));
  expect(clients).toHaveLength(2);
});

describe('an update of the extension that needs newer packages', () => {
  beforeEach(() => {
    settings.clear();
    installer.program = program;
  });

  it('is asked for beside the server that is there', async () => {
    installer.offerUpdate.mockImplementation(() => never);
    void session().start(false);
    await vi.waitFor(() => expect(running()).toBe(1));
    expect(installer.offerUpdate).toHaveBeenCalledOnce();
    expect(states[0]).toBe('starting');
  });

  it('starts the server again once the packages are there', async () => {
    installer.offerUpdate.mockImplementationOnce(async () => true).mockImplementation(async () => false);
    await session().start(false);
    await vi.waitFor(() => expect(running()).toBe(1));
    expect(clients.map(({ disposed }) => disposed)).toEqual([true, false]);
  });

  it('is not asked for where the user has a server of their own', async () => {
    settings.set('lspCalib.server.path', { globalValue: program });
    installer.program = '/storage/bin/lsp-calib';
    await session().start(false);
    expect(installer.offerUpdate).not.toHaveBeenCalled();
  });
});
