import { expect, it } from 'vitest';
import { hasStrictPolicy, inTheme } from '../src/report_page';

const page = (policy: string, before = '<meta charset="utf-8">') =>
  `<!doctype html>\n<html lang="en"><head>${before}<meta http-equiv="Content-Security-Policy" content="${policy}"><title>x</title>`;
const NONE = 'default-src &#x27;none&#x27;';

it('a page is shown if its head begins with a policy under which nothing runs and nothing is loaded', () => {
  expect(hasStrictPolicy(page(`${NONE}; style-src &#x27;sha256-abc=&#x27;`))).toBe(true);
  expect(hasStrictPolicy(page("default-src 'none'; style-src 'unsafe-inline'"))).toBe(true);
});

it.each([
  page('default-src *;'),
  page(`${NONE}; script-src *`),
  page(`${NONE}; frame-src *`),
  page(`${NONE};`, '<script>1</script>'),
  page(`${NONE};`, '<title>"default-src \'none\';"</title>'),
  '<!doctype html><html><head></head><body>no policy',
  '',
])('any other is not: %s', (html) => {
  expect(hasStrictPolicy(html)).toBe(false);
});

it('has the theme of the editor, once', () => {
  const dark = inTheme('<html lang="en"><head>', false);
  expect(dark).toBe('<html data-theme="dark" lang="en"><head>');
  expect(inTheme(dark, true)).toBe(dark);
});
