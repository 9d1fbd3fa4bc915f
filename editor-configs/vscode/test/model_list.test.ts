import { expect, it } from 'vitest';
import { choices, type Listed } from '../src/model_list';

const SMALL: Listed = {
  name: 'small',
  kind: 'language',
  title: 'Small',
  licence: 'Apache-2.0',
  notice: '',
  bytes: 98e6,
  installed: true,
  memoryBytes: 8.2e8,
  fits: true,
  speed: null,
  quality: { right: 0.238, n: 2341 },
};

it('shows the current model first, and of each its memory and quality', () => {
  const large = { ...SMALL, name: 'large', title: 'Large', memoryBytes: 1.9e9, quality: { right: 0.542, n: 2233 }, recommended: true, speed: { p50Ms: 240.4 } };
  const found = choices([SMALL, large], 'large');
  expect(found.map(({ label, description, detail }) => [label, description, detail])).toEqual([
    ['$(check) Large', 'current · recommended · Apache-2.0', '1.9 GB of memory · 54 % of 2233 Python lines right · 240 ms a key here'],
    ['Small', 'installed · Apache-2.0', '0.8 GB of memory · 24 % of 2341 Python lines right'],
  ]);
});

it('orders the others by what it takes to have them, without what completes nothing', () => {
  const absent = { ...SMALL, name: 'absent', title: 'Absent', installed: false, fits: false, quality: null, notice: 'Terms\napply.' };
  const unknown = { ...absent, name: 'unknown', title: 'Unknown', bytes: null };
  const encoder = { ...SMALL, name: 'encoder', kind: 'encoder' };
  const found = choices([unknown, encoder, absent, SMALL], undefined);
  expect(found.map(({ label }) => label)).toEqual(['Small', 'Absent', 'Unknown']);
  expect(found[1]!.description).toBe('download 98 MB · Apache-2.0');
  expect(found[1]!.detail).toBe('0.8 GB of memory, more than is free · quality not measured · Terms apply.');
  expect(found[2]!.description).toBe('download size unknown · Apache-2.0');
});
