// vscode-languageclient 11 as far as its states matter: what it refuses while it starts, and the command that it registers.

import { registered } from './mock_vscode';

export const CloseAction = { DoNotRestart: 1, Restart: 2 };
export const ErrorAction = { Continue: 1 };
export const RevealOutputChannelOn = { Never: 4 };
export const clients: LanguageClient[] = [];
/** What a start waits for after the process is there. */
export const slow = { start: async (): Promise<void> => undefined };

/** The notifications that servers were sent, by their method. */
export const notified: string[] = [];
export const answers = { next: async (): Promise<unknown> => undefined };

export class LanguageClient {
  state = 'initial';
  disposed = false;
  initializeResult = { capabilities: { executeCommandProvider: { commands: ['lsp-calib.accepted'] } } };
  private starting: Promise<void> | undefined;
  private kill: () => void = () => undefined;
  readonly serverProcess = { kill: () => this.kill() };

  constructor(
    readonly id: string,
    readonly name: string,
    readonly server: { command: string; args: string[]; options: { cwd: string } },
    readonly options: {
      errorHandler: { closed(): { action: number } };
      revealOutputChannelOn?: number;
      middleware: {
        notebooks: { didSave(notebook: object, next: (notebook: object) => Promise<void>): Promise<void> };
        workspace: { configuration(params: object): unknown };
      };
    },
  ) {
    clients.push(this);
  }

  onNotification(): void {}
  registerFeature(): void {}
  error(): void {}
  async sendNotification(method: string): Promise<void> {
    notified.push(method);
  }

  sendRequest(): Promise<unknown> {
    return answers.next();
  }

  isRunning(): boolean {
    return this.state === 'running';
  }

  needsStop(): boolean {
    return this.state === 'starting' || this.state === 'running';
  }

  start(): Promise<void> {
    if (this.disposed) {
      return Promise.reject(new Error('disposed'));
    }
    this.starting ??= this.bringUp();
    return this.starting;
  }

  private async bringUp(): Promise<void> {
    this.state = 'starting';
    const killed = new Promise<never>((_, reject) => (this.kill = () => reject(new Error('killed'))));
    try {
      await Promise.race([slow.start(), killed]);
      if (registered.has('lsp-calib.accepted')) {
        throw new Error("command 'lsp-calib.accepted' already exists");
      }
    } catch (error) {
      this.state = 'failed';
      throw error;
    }
    registered.set('lsp-calib.accepted', this);
    this.state = 'running';
  }

  /** The end of its process becomes known. */
  closed(): void {
    this.starting = undefined;
    if (this.options.errorHandler.closed().action === CloseAction.Restart) {
      this.start().catch(() => undefined);
    }
  }

  async dispose(): Promise<void> {
    this.disposed = true;
    if (this.state !== 'running') {
      throw new Error(`Client is not running and can't be stopped. It's current state is: ${this.state}`);
    }
    registered.delete('lsp-calib.accepted');
    this.state = 'stopping';
    await new Promise((resolve) => setTimeout(resolve, 5));
    this.state = 'stopped';
  }
}
