// Which of the user's settings the server is told, as values: settings.ts reads them from VS Code.

export const SECTION = 'lspCalib';
// The extension's own: no server knows them, and what some of them name is started.
const OWN = ['server', 'serverPath', 'trusted', 'badge'] as const;
const OF_OWN = new RegExp(`^${SECTION}\\.(${OWN.join('|')})(\\.|$)`);

/** The object without unset (null) values, at every depth; undefined where nothing is left. */
export function pruned(value: unknown): unknown {
  if (value === null || typeof value !== 'object' || Array.isArray(value)) {
    return value ?? undefined;
  }
  const kept = Object.entries(value)
    .map(([key, inner]) => [key, pruned(inner)] as const)
    .filter(([, inner]) => inner !== undefined);
  return kept.length > 0 ? Object.fromEntries(kept) : undefined;
}

/** The answer to one item of `workspace/configuration`: only what was set, and nothing that needs trust. */
export function forServer(section: string | undefined, answer: unknown): unknown {
  if (section === SECTION) {
    const rest: Record<string, unknown> = { ...(answer as object | null | undefined) };
    for (const key of OWN) {
      delete rest[key];
    }
    return pruned(rest) ?? {};
  }
  if (OF_OWN.test(section ?? '')) {
    return null;
  }
  return pruned(answer) ?? null;
}

/**
 * `initializationOptions`: the settings, and beside them those that only the user may make.
 *
 * all: section `lspCalib` as VS Code merges it. trusted, own: what the user's own settings say, by key.
 */
export function initializationOptions(
  all: unknown,
  trusted: Readonly<Record<string, unknown>>,
  own: Readonly<Record<string, unknown>>,
): object {
  // A workspace's own values would take the place of the user's; this way they can only be stricter.
  const user = { ...(pruned(trusted) as object | undefined), ...(pruned(own) as object | undefined) };
  return { ...(forServer(SECTION, all) as object), trusted: user };
}
