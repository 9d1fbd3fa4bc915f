import { expect, it } from 'vitest';
import { needsAttention, statusSentence, statusText } from '../src/status_text';

it('names the model while all is well, otherwise the state', () => {
  expect(statusText({ state: 'ready', model: 'm' })).toBe('$(pass) m');
  expect(statusText({ state: 'busy', model: 'm' }, '▲ review')).toBe('$(sync~spin) m ▲ review');
  expect(statusText({ state: 'noModel', model: null })).toBe('$(warning) lsp-calib: no model');
  expect(statusText({ state: 'error' })).toBe('$(error) lsp-calib: not working');
  expect(statusText({ state: 'of-the-future' })).toBe('$(question) lsp-calib: of-the-future');
});

it('says the states in the words of the server, where it sends any', () => {
  const legend = { paused: { mark: '‖', words: 'having a rest' }, drifted: { mark: '!', words: 'off course' } };
  expect(statusText({ state: 'paused', model: 'm' }, undefined, legend)).toBe('$(debug-pause) lsp-calib: having a rest');
  expect(statusSentence({ state: 'paused' }, legend)).toBe('lsp-calib: having a rest');
  const calibrator = { source: 'personal', state: 'drifted', n: 80 };
  expect(statusSentence({ state: 'ready', calibrator }, legend)).toContain('calibrator drifted (personal, 80 labels): off course');
});

it('shows a calibrator that learns or has drifted, and no other state of it', () => {
  const bar = (state: string) => statusText({ state: 'ready', model: 'm', calibrator: { source: 'personal', state, n: 9 } }, '● accept');
  expect(bar('learning')).toBe('$(pass) m, learning ● accept');
  expect(bar('drifted')).toBe('$(pass) m, drifted ● accept');
  expect(bar('shipped')).toBe(bar('ready'));
  expect(bar('ready')).toBe('$(pass) m ● accept');
});

it('calls for attention only where something must be done', () => {
  const states = ['notInstalled', 'installing', 'starting', 'loading', 'ready', 'busy', 'paused', 'noModel', 'error'];
  expect(states.filter((state) => needsAttention({ state }))).toEqual(['noModel', 'error']);
  const drifted = { source: 'personal', state: 'drifted', n: 80 };
  expect(needsAttention({ state: 'ready', calibrator: drifted })).toBe(true);
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
  ).toBe('lsp-calib: Ready. · model m · calibrator learning (personal, 31 labels): it has few labels yet, and may still change much · carried over · shown: 1 accept, 2 review, 3 reject · median 42 ms');
  expect(statusSentence({ state: 'ready', latencyMs: { p50: null, p95: null }, ahead: { evaluated: 0, used: 0 } })).toBe('lsp-calib: ready');
  expect(statusSentence({ state: 'ready', ahead: { evaluated: 90, used: 40 } })).toBe('lsp-calib: ready · evaluated where the cursor rested: 90 tokens, 40 of them used');
});

it('says that the model is slow here, and how many completions were hidden', () => {
  const slow = 'm is slow here: 900 ms a key; s takes 120 ms.';
  expect(statusSentence({ state: 'ready', message: 'Ready.', model: 'm', slow, hidden: 2 })).toBe(
    'lsp-calib: Ready. · model m · m is slow here: 900 ms a key; s takes 120 ms. · 2 hidden as not sure enough (hideBelow)',
  );
});
