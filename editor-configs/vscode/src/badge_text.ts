// What the badge of a suggestion says. Its probability stands in the hover alone: developers prefer colours and
// words to numbers in the editor (arXiv 2510.22614).

import type { Legend, Suggestion, Tier } from './wire';

export interface Verdict {
  readonly tier: Tier;
  readonly words: string;
  readonly confidence: number | null;
}

// The server's own marks, for one that sends none. No two tiers share a shape: colour is never alone.
const MARKS: Readonly<Record<Tier, string>> = { accept: '●', review: '▲', reject: '✗' };

/** Tier, words and probability of a suggestion; of a block, how far its lines are to accept, if they are not all. */
export function verdictOf({ tier, confidence, lines }: Suggestion): Verdict {
  const through = lines?.findIndex((line) => line.tier !== 'accept') ?? -1;
  const last = lines?.[through - 1];
  return through > 0 && last
    ? { tier: 'accept', words: `accept through line ${through}`, confidence: last.confidence }
    : { tier, words: tier, confidence };
}

export function markOf(tier: Tier, legend: Legend): string {
  return legend[tier]?.mark ?? MARKS[tier];
}

/** The badge. rank: the number that VS Code shows of one of several suggestions, undefined for a single one. */
export function badgeText(verdict: Verdict, legend: Legend, rank?: number): string {
  const number = rank === undefined ? '' : `${rank}: `;
  return `${number}${markOf(verdict.tier, legend)} ${verdict.words}`;
}

/**
 * A probability from 0 to 1 in whole percent; what is not certain reads neither 0 nor 100 %. Where it cannot be had
 * or believed there is none to show.
 */
export function percent(probability: number | null): string {
  if (probability === null) return 'no probability';
  if (probability > 0 && probability < 0.005) return '<1 %';
  return probability >= 0.995 && probability < 1 ? '>99 %' : `${Math.round(100 * probability)} %`;
}

/** Why a suggestion has its tier, in sentences. */
export function whyThisTier(suggestion: Suggestion, legend: Legend): string {
  const { tier, words, confidence } = verdictOf(suggestion);
  const meaning = legend[tier]?.words;
  const { calibrator, model, reason } = suggestion;
  const from = calibrator && `calibrator ${calibrator.state} (${calibrator.source}, ${calibrator.n} labels)`;
  const parts = [`${markOf(tier, legend)} ${words}: ${percent(confidence)}${meaning ? `, ${meaning}` : ''}`, reason, model, from];
  return parts.filter(Boolean).join(' · ');
}
