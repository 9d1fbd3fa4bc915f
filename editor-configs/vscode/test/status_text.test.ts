import { expect, it } from 'vitest';
import { needsAttention, statusSentence, statusText } from '../src/status_text';

it('names the model while all is well, otherwise the state', () => {
  expect(statusText({ state: 'ready', model: 'm' })).toBe('$(pass) m');
  expect(statusText({ state: 'busy', model: 'm' }, '▲ review')).toBe('$(sync~spin) m ▲ review');
  expect(statusText({ state: 'noModel', model: null })).toBe('$(warning) lsp-calib: no model');
  expect(statusText({ state: 'of-the-future' })).toBe('$(question) lsp-calib: of-the-future');
});

it('calls for attention only where something must be done', () => {
  const states = ['notInstalled', 'installing', 'starting', 'loading', 'ready', 'busy', 'paused', 'noModel', 'error'];
  expect(states.filter((state) => needsAttention({ state }))).toEqual(['noModel', 'error']);
});

it('puts what is known into one sentence, and nothing else', () => {
  expect(statusSentence({ state: 'ready' })).toBe('lsp-calib: ready');
  expect(
    statusSentence({
      state: 'ready',
      message: 'Ready.',
      model: 'm',
      calibrator: { source: 'personal', state: 'learning', n: 31 },
      note: 'carried over',
      tiers: { accept: 1, review: 2, reject: 3 },
      latencyMs: { p50: 41.7, p95: 90 },
    }),
  ).toBe('lsp-calib: Ready. · model m · calibrator learning (personal, 31 labels) · carried over · shown: 1 accept, 2 review, 3 reject · median 42 ms');
  expect(statusSentence({ state: 'ready', latencyMs: { p50: null, p95: null } })).toBe('lsp-calib: ready');
});
