// The server's state folder and the models in it, as lsp_calib/home.py finds them.

import { readdirSync, statSync } from 'node:fs';
import { homedir } from 'node:os';
import { isAbsolute, join } from 'node:path';

/** The state folder: `LSP_CALIB_HOME`, or the platform's user data folder. */
export function stateFolder(environment: NodeJS.ProcessEnv, platform: NodeJS.Platform = process.platform): string {
  const named = environment['LSP_CALIB_HOME']?.replace(/^~(?=$|[/\\])/, homedir());
  if (named && isAbsolute(named)) {
    return named;
  }
  const data = environment['XDG_DATA_HOME'];
  switch (platform) {
    case 'win32':
      return join(environment['LOCALAPPDATA'] ?? join(homedir(), 'AppData', 'Local'), 'lsp-calib');
    case 'darwin':
      return join(homedir(), 'Library', 'Application Support', 'lsp-calib');
    default:
      return join(data && isAbsolute(data) ? data : join(homedir(), '.local', 'share'), 'lsp-calib');
  }
}

/** Whether a whole file of a model lies there. */
export function isInstalled(folder: string, model: { readonly file: string; readonly bytes: number }): boolean {
  try {
    return statSync(join(folder, 'models', model.file)).size === model.bytes;
  } catch {
    return false;
  }
}

/** Bytes of a download that is not complete yet: what lies in the `.pull-*` entries of the models folder. */
export function partialBytes(folder: string): number {
  return sizeOf(join(folder, 'models'), (name) => name.startsWith('.pull-'));
}

function sizeOf(folder: string, counts: (name: string) => boolean = () => true): number {
  let bytes = 0;
  try {
    for (const entry of readdirSync(folder, { withFileTypes: true }).filter(({ name }) => counts(name))) {
      const path = join(folder, entry.name);
      bytes += entry.isDirectory() ? sizeOf(path) : statSync(path).size;
    }
  } catch {
    // A file that is renamed meanwhile: what was counted is enough for a progress bar.
  }
  return bytes;
}
