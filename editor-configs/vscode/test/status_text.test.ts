import { expect, it } from 'vitest';
import { needsAttention, stateWords, statusLines, statusText } from '../src/status_text';

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
  expect(stateWords({ state: 'paused' }, legend)).toBe('having a rest');
  expect(stateWords({ state: 'notInstalled' }, legend)).toBe('not installed');
  const calibrator = { source: 'personal', state: 'drifted', n: 80 };
  expect(statusLines({ state: 'ready', calibrator }, legend, '/c')[1]![1]).toBe('personal, drifted, 80 labels: off course');
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

it('has three lines, and the path of config.toml', () => {
  const calibrator = { source: 'personal', state: 'learning', n: 31 };
  expect(statusLines({ state: 'ready', message: 'Ready.', model: 'm', calibrator }, {}, '/home/me/config.toml')).toEqual([
    ['Model', 'm'],
    ['Calibrator', 'personal, learning, 31 labels: it has few labels yet, and may still change much'],
    ['State', 'Ready.'],
    ['Settings file', '/home/me/config.toml'],
  ]);
  expect(statusLines({ state: 'noModel', model: null, calibrator: null }, {}, '/c').slice(0, 3)).toEqual([
    ['Model', 'none is loaded'],
    ['Calibrator', 'none was used yet'],
    ['State', 'no model'],
  ]);
  const slow = 'm is slow here: 900 ms a key; s takes 120 ms.';
  expect(statusLines({ state: 'ready', model: 'm', slow }, {}, '/c')[0]).toEqual(['Model', slow]);
});
