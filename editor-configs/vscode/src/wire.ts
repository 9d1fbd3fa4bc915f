// What comes over the wire from the server: docs/protocol.md in the repository describes each field.

export const TIERS = ['accept', 'review', 'reject'] as const;
export type Tier = (typeof TIERS)[number];

/** Of a block, up to one of its lines: the probability that all lines to there are right. */
export interface LineVerdict {
  readonly confidence: number | null;
  readonly tier: Tier;
}

export interface Suggestion {
  readonly id: string;
  readonly tier: Tier;
  readonly confidence: number | null;
  readonly reason?: string;
  readonly model?: string;
  readonly calibrator?: Calibrator | null;
  readonly lines?: readonly LineVerdict[];
  readonly text?: string;
  readonly sure?: Sure | null;
}

/** The answer to `lsp-calib/nextEdit`. The range may be empty (an insertion), and so may the text (a removal). */
export interface NextEdit {
  readonly id: string;
  readonly uri: string;
  readonly range: { readonly start: Place; readonly end: Place };
  readonly text: string;
  readonly confidence: number | null;
  readonly tier: Tier;
  readonly reason: string;
}

interface Place {
  readonly line: number;
  readonly character: number;
}

/** The beginning of a suggestion that can be trusted: its end in UTF-16 units of the text. */
export interface Sure {
  readonly end: number;
  readonly confidence: number;
}

export interface Calibrator {
  readonly source: string;
  readonly state: string;
  readonly n: number;
}

/** How a tier or a state is shown: `capabilities.experimental.lspCalib.badges`. */
export interface Badge {
  readonly mark: string;
  readonly words: string;
}

export type Legend = Readonly<Record<string, Badge>>;

/** The parameters of `lsp-calib/status`, and the answer to the command of that name. */
export interface Status {
  readonly state: string;
  readonly message?: string | undefined;
  readonly model?: string | null;
  /** That the model is slow on this machine, and how fast the smallest one is. */
  readonly slow?: string | null;
  readonly calibrator?: Calibrator | null;
  readonly note?: string | null;
  readonly tiers?: Readonly<Record<Tier, number>>;
  /** Completions that were not shown. */
  readonly hidden?: number;
  readonly latencyMs?: { readonly p50: number | null; readonly p95: number | null };
  /** How much code the model is shown. */
  readonly window?: string | null;
  /** Of answers: those of which nothing could be offered, and those whose end is not, by the reason. */
  readonly withheld?: Readonly<Record<string, number>>;
  readonly cut?: Readonly<Record<string, number>>;
  readonly certificate?: { readonly reason: string } | null;
  /** Tokens of text evaluated where the cursor rested; of these, those that answers have used. */
  readonly ahead?: { readonly evaluated: number; readonly used: number };
}

/** The suggestion that a command of an inline completion item carries, or undefined for something else. */
export function suggestionIn(argument: unknown): Suggestion | undefined {
  const found = argument as Suggestion | null | undefined;
  return TIERS.includes(found?.tier as Tier) && typeof found?.id === 'string' ? found : undefined;
}

/** The edit in an answer, or undefined for something else. */
export function nextEditIn(answer: unknown): NextEdit | undefined {
  const found = answer as NextEdit | null | undefined;
  return TIERS.includes(found?.tier as Tier) && typeof found?.id === 'string' && typeof found.text === 'string' ? found : undefined;
}
