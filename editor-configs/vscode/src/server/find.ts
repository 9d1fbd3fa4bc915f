// Which `lsp-calib` is started: the user's choice, else the one that the extension installed, else one on the PATH.

import { accessSync, constants, statSync } from 'node:fs';
import { delimiter, isAbsolute, join } from 'node:path';

export interface Places {
  /** The user's setting: an absolute path, or a name on the PATH; '' where there is none. */
  readonly configured: string;
  /** The program that the extension has installed; undefined where it has not. */
  readonly own: string | undefined;
  /** The variables PATH and PATHEXT. */
  readonly environment: NodeJS.ProcessEnv;
}

/** missing: what the user has named and is not there; '' where nothing was named. */
export type Found = { readonly program: string } | { readonly program: undefined; readonly missing: string };

/** A file that can be started. */
export function isProgram(path: string): boolean {
  try {
    accessSync(path, process.platform === 'win32' ? constants.F_OK : constants.X_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
}

/**
 * The absolute path of a program on the PATH, or undefined.
 *
 * Folders with relative names do not count: in a workspace they would be the workspace's.
 */
export function onPath(name: string, environment: NodeJS.ProcessEnv, exists = isProgram): string | undefined {
  const endings = process.platform === 'win32' ? (environment['PATHEXT'] ?? '.EXE').split(';') : [''];
  for (const folder of (environment['PATH'] ?? environment['Path'] ?? '').split(delimiter)) {
    const found = isAbsolute(folder) && endings.map((ending) => join(folder, name + ending)).find(exists);
    if (found) {
      return found;
    }
  }
  return undefined;
}

/** The server to start, or what is missing. exists: whether a path is a program. */
export function findServer({ configured, own, environment }: Places, exists = isProgram): Found {
  if (configured) {
    // What the user has named is not replaced by something else.
    const program = isAbsolute(configured) ? exists(configured) && configured : onPath(configured, environment, exists);
    return program ? { program } : { program: undefined, missing: configured };
  }
  if (own && exists(own)) {
    return { program: own };
  }
  const program = onPath('lsp-calib', environment, exists);
  return program ? { program } : { program: undefined, missing: '' };
}
