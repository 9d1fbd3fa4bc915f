// The Python that the server's environment is made with.

import { run, type Options } from './process';
import { onPath } from '../server/find';

export interface Python {
  readonly program: string;
  readonly version: string;
}

export type PythonSearch = { readonly python: Python } | { readonly python: undefined; readonly advice: string };

const OLDEST = [3, 11] as const;
// The locks have no wheels for later ones.
const NEWEST = [3, 14] as const;
const NAMES = ['python3.13', 'python3.12', 'python3.11', 'python3.14', 'python3', 'python'];
// Debian's Python may lack ensurepip, without which an environment has no pip.
const PROBE =
  'import importlib.util as u, json, sys; ' +
  'print(json.dumps([list(sys.version_info[:3]), all(u.find_spec(m) for m in ("venv", "ensurepip"))]))';

/** What a Python says of itself to PROBE: whether it will do, and why not. */
export function judge(answer: string): { readonly version: string; readonly fault: 'old' | 'new' | 'noVenv' | undefined } {
  const [version, complete] = JSON.parse(answer) as [number[], boolean];
  const [major = 0, minor = 0] = version;
  const old = major < OLDEST[0] || (major === OLDEST[0] && minor < OLDEST[1]);
  const tooNew = major > NEWEST[0] || (major === NEWEST[0] && minor > NEWEST[1]);
  return { version: version.join('.'), fault: old ? 'old' : tooNew ? 'new' : complete ? undefined : 'noVenv' };
}

/** What to do where no Python serves. seen: the faults of those that are there, by version. */
export function advice(seen: readonly { version: string; fault: string }[], platform: NodeJS.Platform): string {
  const without = seen.find(({ fault }) => fault === 'noVenv');
  if (without) {
    return `Python ${without.version} is there without its venv module: install it (Debian and Ubuntu: sudo apt install python3-venv).`;
  }
  const tooNew = seen.find(({ fault }) => fault === 'new');
  if (tooNew) {
    const wanted = `install Python ${NEWEST.join('.')}, or name one in lspCalib.server.python`;
    return `Python ${tooNew.version} is too new for the packages of this version of lsp-calib: ${wanted}.`;
  }
  const newest = seen[0] ? `The Python here is ${seen[0].version}. ` : 'There is no Python here. ';
  const how =
    platform === 'win32'
      ? 'winget install Python.Python.3.13'
      : platform === 'darwin'
        ? 'brew install python@3.13'
        : 'Debian and Ubuntu: sudo apt install python3 python3-venv';
  return `${newest}lsp-calib needs Python ${OLDEST.join('.')} to ${NEWEST.join('.')}: install it (${how}), or name one in lspCalib.server.python.`;
}

/** The first Python that serves, of the one that the user has named or of those on the PATH. */
export async function findPython(named: string, options: Options): Promise<PythonSearch> {
  const environment = options.environment ?? process.env;
  const candidates = (named ? [named] : NAMES).map((name) => onPath(name, environment) ?? (named || undefined));
  const seen: { version: string; fault: string }[] = [];
  for (const program of new Set(candidates.filter((found) => found !== undefined))) {
    try {
      // -I: nothing of the folder or the user's site decides what Python this is.
      const { version, fault } = judge(await run(program, ['-I', '-c', PROBE], options));
      if (!fault) {
        return { python: { program, version } };
      }
      seen.push({ version, fault });
    } catch {
      // It does not start, or is no Python: the next one.
    }
  }
  return { python: undefined, advice: advice(seen, process.platform) };
}
