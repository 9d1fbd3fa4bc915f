// One program at a time, with its output in the log, and stopped with its children when the user cancels.

import { spawn, spawnSync, type ChildProcess } from 'node:child_process';

export interface Log {
  appendLine(line: string): void;
}

/** The part of VS Code's CancellationToken that is needed here. */
export interface Cancellation {
  readonly isCancellationRequested: boolean;
  onCancellationRequested(listener: () => void): { dispose(): void };
}

export class Cancelled extends Error {
  constructor() {
    super('cancelled');
  }
}

export class ProgramError extends Error {
  /** tail: the last lines that the program has written. */
  constructor(
    readonly program: string,
    readonly code: number | null,
    readonly tail: string,
  ) {
    super(`${program} ended with ${code ?? 'a signal'}: ${tail}`);
  }
}

export interface Options {
  readonly cwd: string;
  readonly log: Log;
  readonly cancellation?: Cancellation;
  readonly environment?: NodeJS.ProcessEnv;
  readonly onLine?: (line: string) => void;
}

/**
 * Runs a program to its end and returns its standard output.
 *
 * cwd: never a workspace: programs find files of their own there. Raises ProgramError if it cannot be started or
 * does not end with 0, Cancelled if the user cancelled.
 */
export function run(program: string, args: readonly string[], options: Options): Promise<string> {
  const { cwd, log, cancellation, environment, onLine } = options;
  if (cancellation?.isCancellationRequested) {
    return Promise.reject(new Cancelled());
  }
  log.appendLine(`> ${program} ${args.join(' ')}`);
  return new Promise((resolve, reject) => {
    // A group of its own: pip starts compilers, which are to stop with it.
    const child = spawn(program, args, {
      cwd,
      env: environment ?? process.env,
      detached: process.platform !== 'win32',
      stdio: ['ignore', 'pipe', 'pipe'],
      windowsHide: true,
    });
    const subscription = cancellation?.onCancellationRequested(() => stop(child));
    const tail: string[] = [];
    let output = '';
    const line = (text: string) => {
      log.appendLine(text);
      tail.push(text);
      tail.splice(0, tail.length - 8);
      onLine?.(text);
    };
    child.stdout.setEncoding('utf8').on('data', (chunk: string) => (output += chunk));
    byLine(child.stdout, line);
    byLine(child.stderr, line);
    const done = (error?: Error) => {
      subscription?.dispose();
      if (cancellation?.isCancellationRequested) {
        reject(new Cancelled());
      } else if (error) {
        reject(error);
      } else {
        resolve(output);
      }
    };
    child.on('error', (error) => done(new ProgramError(program, null, error.message)));
    child.on('close', (code) => done(code === 0 ? undefined : new ProgramError(program, code, tail.join('\n'))));
  });
}

function stop(child: ChildProcess): void {
  if (child.pid === undefined) {
    return;
  }
  try {
    if (process.platform === 'win32') {
      spawnSync('taskkill', ['/pid', String(child.pid), '/T', '/F'], { windowsHide: true });
    } else {
      process.kill(-child.pid, 'SIGTERM');
    }
  } catch {
    child.kill(); // the group is gone already
  }
}

function byLine(stream: NodeJS.ReadableStream, line: (text: string) => void): void {
  let rest = '';
  stream.setEncoding('utf8');
  stream.on('data', (chunk: string) => {
    const lines = (rest + chunk).split(/\r?\n|\r/);
    rest = lines.pop() ?? '';
    lines.filter(Boolean).forEach(line);
  });
  stream.on('end', () => rest && line(rest));
}
