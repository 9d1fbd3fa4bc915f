// What the badge of a suggestion says. Its probability stands in the hover, and in the badge for who asks for it:
// developers prefer colours and words to numbers in the editor (arXiv 2510.22614).

import { calibratorText } from './status_text';
import type { Legend, Suggestion, Tier } from './wire';

export interface Verdict {
  readonly tier: Tier;
  readonly words: string;
  readonly confidence: number | null;
}

// The server's own marks, for one that sends none. No two tiers share a shape: colour is never alone.
const MARKS: Readonly<Record<Tier, string>> = { accept: '●', review: '▲', reject: '✗' };

// A shorter part is not worth a key.
const SHORTEST_PART = 4;

/** The word that ends the part that can be trusted, of a line that is not to be accepted as a whole. */
export function sureWord({ tier, text, sure, lines }: Suggestion): string | undefined {
  if ((lines?.[0]?.tier ?? tier) === 'accept' || !sure || text === undefined || sure.end < SHORTEST_PART) return undefined;
  return /([\p{L}\p{N}_]+|[^\p{L}\p{N}_\s]+)$/u.exec(text.slice(0, sure.end))?.[0];
}

/**
 * Tier, words and probability of a suggestion; of a block, those of its first line, and how far they hold; of a line,
 * how far it can be trusted, if not to its end.
 */
export function verdictOf(suggestion: Suggestion): Verdict {
  const { lines } = suggestion;
  const tier = lines?.[0]?.tier ?? suggestion.tier;
  const through = lines?.findIndex((line) => line.tier !== tier) ?? -1;
  const { confidence } = lines?.[through - 1] ?? suggestion;
  const word = sureWord(suggestion);
  const words = `${tier}${through > 0 ? ` through line ${through}` : ''}${word === undefined ? '' : `, sure up to ${word}`}`;
  return { tier, words, confidence };
}

/** From which line of a block on it is rejected, from 0; undefined if it is nowhere, or no block. */
export function rejectedFrom({ lines }: Suggestion): number | undefined {
  const from = lines?.findIndex((line) => line.tier === 'reject') ?? -1;
  return from < 0 ? undefined : from;
}

const PAIRS: Readonly<Record<string, string>> = { '(': ')', '[': ']', '{': '}' };

/** How many of the closers behind the cursor a piece writes itself: what it opens is closed first. */
export function writtenOver(piece: string, closers: string): number {
  const open: string[] = [];
  let over = 0;
  for (const char of piece) {
    if (char === open.at(-1)) open.pop();
    else if (char === closers[over]) over += 1;
    else if (PAIRS[char] !== undefined || '"\'`'.includes(char)) open.push(PAIRS[char] ?? char);
  }
  return over;
}

/**
 * What is still to come of the part that can be trusted, which is all of an accepted line and of a block the accepted
 * lines; '' if nothing is.
 * typed: of the suggestion, already.
 */
export function surePart({ tier, text, sure, lines }: Suggestion, typed: number): string {
  const end = tier === 'accept' && !lines?.length ? text?.length : sure?.end;
  return end === undefined ? '' : (text ?? '').slice(typed, end);
}

const CLOSERS = /^[\s)\]}"'`;,]*$/;

/** Whether a suggestion still agrees with its line. offered: the line up to its end. behind: what it leaves behind itself. */
export function goesAlong(offered: string, line: string, at: number, behind: string): boolean {
  const between = line.length - behind.length;
  const closers = line.slice(at, between);
  const agrees = at < offered.length && offered.startsWith(line.slice(0, at));
  return agrees && at <= between && line.endsWith(behind) && CLOSERS.test(closers);
}

/** Where the cursor is after a key: behind what was written, or between the two of a pair that the editor has completed. */
export function cursorAfter(written: string, at: number): number {
  const [first = '', second] = written;
  const paired = written.length === 2 && second === (PAIRS[first] ?? ('"\'`'.includes(first) ? first : undefined));
  return at + written.length - (paired ? 1 : 0);
}

export function markOf(tier: Tier, legend: Legend): string {
  return legend[tier]?.mark ?? MARKS[tier];
}

/**
 * The badge. rank: the number that VS Code shows of one of several suggestions, undefined for a single one. number:
 * whether it names the probability, where there is one, in place of the tier, whose mark and colour it keeps.
 */
export function badgeText(verdict: Verdict, legend: Legend, rank?: number, number = false): string {
  const { tier, words } = verdict;
  return `${rank === undefined ? '' : `${rank}: `}${tierText(verdict, legend, number)}${words.slice(tier.length)}`;
}

/** Mark and tier; mark and probability for who wants the number. */
export function tierText({ tier, confidence }: Verdict, legend: Legend, number = false): string {
  return `${markOf(tier, legend)} ${number && confidence !== null ? percent(confidence) : tier}`;
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
  const { calibrator, model, reason } = suggestion;
  const known = legend[tier]?.words;
  // The reason of a rejected line says them with numbers, where there are any.
  const meaning = known && !reason?.includes(known) ? known : undefined;
  const from = calibrator && `calibrator ${calibratorText(calibrator)}`;
  const parts = [`${markOf(tier, legend)} ${words}: ${percent(confidence)}${meaning ? `, ${meaning}` : ''}`, reason, model, from];
  return parts.filter(Boolean).join(' · ');
}
