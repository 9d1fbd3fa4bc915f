import { describe, expect, it } from 'vitest';
import { badgeText, percent, rejectedFrom, surePart, sureWord, verdictOf, whyThisTier, writtenOver } from '../src/badge_text';
import { suggestionIn, TIERS, type Suggestion } from '../src/wire';

const legend = { accept: { mark: '●', words: 'usually used as it is' }, review: { mark: '▲', words: 'read it first' }, reject: { mark: '✗', words: 'rarely used as it is' } };
const suggestion: Suggestion = {
  id: '0123456789abcdef',
  tier: 'review',
  confidence: 0.463,
  reason: 'below 78 %',
  model: 'a-model',
  calibrator: { source: 'shipped', state: 'shipped', n: 1250 },
};

describe('the badge', () => {
  it('has mark and tier, and no number', () => {
    expect(badgeText(verdictOf(suggestion), legend)).toBe('▲ review');
  });

  it('names the probability in place of the tier for who wants it, where there is one', () => {
    const shown = (one: Suggestion) => badgeText(verdictOf(one), legend, undefined, true);
    expect(shown(suggestion)).toBe('▲ 46 %');
    expect(shown({ ...suggestion, text: 'count + other', sure: { end: 5, confidence: 0.9 } })).toBe('▲ 46 %, sure up to count');
    expect(shown({ ...suggestion, lines: [{ confidence: 0.9, tier: 'accept' }, { confidence: 0.4, tier: 'review' }] })).toBe('● 90 % through line 1');
    expect(shown({ ...suggestion, confidence: null })).toBe('▲ review');
  });

  it('has a shape of its own for each tier, whatever the server sends', () => {
    for (const known of [legend, {}]) {
      const marks = TIERS.map((tier) => badgeText({ tier, words: '', confidence: null }, known).trim());
      expect(new Set(marks).size).toBe(3);
    }
  });

  it('bears the number that VS Code gives to one of several suggestions', () => {
    expect(badgeText(verdictOf(suggestion), legend, 2)).toBe('2: ▲ review');
  });

  it('says of a block how far to go, with the probability of the lines to there', () => {
    const lines = [
      { confidence: 0.9, tier: 'accept' },
      { confidence: 0.8, tier: 'accept' },
      { confidence: 0.4, tier: 'review' },
    ] as const;
    expect(verdictOf({ ...suggestion, lines })).toEqual({ tier: 'accept', words: 'accept through line 2', confidence: 0.8 });
    expect(verdictOf({ ...suggestion, lines: lines.slice(0, 2), tier: 'accept' }).words).toBe('accept');
    expect(verdictOf({ ...suggestion, lines: lines.slice(2) }).words).toBe('review');
    expect(verdictOf({ ...suggestion, lines: [] }).words).toBe('review');
    const below = [...lines.slice(2), { confidence: 0.1, tier: 'reject' }] as const;
    expect(verdictOf({ ...suggestion, lines: below, tier: 'reject' })).toEqual({ tier: 'review', words: 'review through line 1', confidence: 0.4 });
    expect(rejectedFrom({ ...suggestion, lines: below })).toBe(1);
    expect(rejectedFrom({ ...suggestion, lines })).toBeUndefined();
  });
});

describe('the part that can be trusted', () => {
  const line = { ...suggestion, text: 'count + other', sure: { end: 5, confidence: 0.9 } };

  it('is named by its last word where the line is not to be accepted as a whole', () => {
    expect(badgeText(verdictOf(line), legend)).toBe('▲ review, sure up to count');
    expect(verdictOf({ ...line, sure: { end: 7, confidence: 0.9 } }).words).toBe('review, sure up to +');
    expect(verdictOf({ ...line, tier: 'accept' }).words).toBe('accept');
    expect(verdictOf({ ...line, sure: { end: 3, confidence: 0.9 } }).words).toBe('review');
    expect(verdictOf({ ...line, sure: null }).words).toBe('review');
    expect(verdictOf({ ...line, text: "naïve🐍 + x", sure: { end: 5, confidence: 0.9 } }).words).toBe('review, sure up to naïve');
  });

  it('is what is still to come of it', () => {
    expect(surePart(line, 0)).toBe('count');
    expect(surePart(line, 3)).toBe('nt');
    expect(surePart(line, 5)).toBe('');
    expect(surePart(suggestion, 0)).toBe('');
    expect(surePart({ ...line, sure: null }, 0)).toBe('');
  });

  it('is all of an accepted line, of which the server names no part, and of a block the lines that it names', () => {
    const accepted: Suggestion = { ...line, tier: 'accept', sure: null };
    expect(surePart(accepted, 6)).toBe('+ other');
    const block = { ...line, text: 'count\nother', lines: [{ confidence: 0.9, tier: 'accept' }] } as const;
    expect(surePart(block, 2)).toBe('unt');
    expect(surePart({ ...block, sure: null }, 0)).toBe('');
    expect(sureWord(block)).toBeUndefined();
  });

  it('replaces the closers behind the cursor that it writes itself, and no other', () => {
    expect(writtenOver('this)', ')')).toBe(1);
    expect(writtenOver('g(x)', ')')).toBe(0);
    expect(writtenOver('a", b)', '")')).toBe(2);
    expect(writtenOver('alpha', ')')).toBe(0);
  });
});

describe('why this tier', () => {
  it('names probability, meaning, reason, model and calibrator', () => {
    expect(whyThisTier(suggestion, legend)).toBe(
      '▲ review: 46 %, read it first · below 78 % · a-model · calibrator shipped, 1250 labels',
    );
  });

  it('says once how often rejected lines are used', () => {
    const reason = 'below 25 %; rarely used as it is (about 1 in 10; 4 in 10 after an edit)';
    const rejected: Suggestion = { id: 'x', tier: 'reject', confidence: 0.12, reason };
    expect(whyThisTier(rejected, legend)).toBe(`✗ reject: 12 % · ${reason}`);
    expect(whyThisTier({ ...rejected, reason: 'below 25 %' }, legend)).toBe('✗ reject: 12 %, rarely used as it is · below 25 %');
  });

  it('invents no probability where there is none', () => {
    expect(whyThisTier({ id: 'x', tier: 'review', confidence: null, calibrator: null }, {})).toBe('▲ review: no probability');
    expect(percent(0)).toBe('0 %');
  });
});

describe('what a command carries', () => {
  it('is a suggestion if it has an id and a known tier', () => {
    expect(suggestionIn(suggestion)).toBe(suggestion);
    for (const other of [undefined, null, 1, 'accept', {}, { tier: 'accept' }, { ...suggestion, tier: 'sure' }]) {
      expect(suggestionIn(other)).toBeUndefined();
    }
  });
});
