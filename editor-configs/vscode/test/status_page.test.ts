import { beforeEach, expect, it, vi } from 'vitest';
import { hasStrictPolicy } from '../src/report_page';
import { StatusItem } from '../src/status';
import { statusPage } from '../src/status_page';
import type { Status } from '../src/wire';
import { window } from './mock_vscode';

vi.mock('vscode', async () => await vi.importActual('./mock_vscode'));
const STATUS: Status = {
  state: 'ready',
  message: 'Ready.',
  model: 'm',
  window: 'large',
  calibrator: { source: 'shipped', state: 'shipped', n: 812 },
  tiers: { accept: 1, review: 2, reject: 3 },
  hidden: 4,
  withheld: { repeatsNextLine: 5, empty: 0 },
  cut: { suffix: 0 },
  latencyMs: { p50: 41.7, p95: 90 },
  ahead: { evaluated: 90, used: 40 },
};

/** The rows of the page's tables, as a reader sees them. */
function rowsOf(html: string): string[] {
  const rows = html.matchAll(/<tr><th scope="row">(.*?)<\/th><td>(.*?)<\/td><\/tr>/g);
  return Array.from(rows, ([, name, text]) => `${name}: ${text}`.replaceAll(/&#(\d+);/g, (_, code) => String.fromCharCode(Number(code))));
}

beforeEach(() => vi.clearAllMocks());

it('says in words what is known, and nothing that is 0', () => {
  expect(rowsOf(statusPage(STATUS, [['State', 'Ready.']]))).toEqual([
    'State: Ready.',
    'Suggestions shown: 6: 1 accept, 2 review, 3 reject',
    'Completions hidden: 4, as less likely to survive than hideBelow',
    'Answers not offered: 5 (repeats next line)',
    'Time for an answer: median 42 ms, 95 % within 90 ms',
    'Evaluated at rest: 90 tokens where the cursor rested, 40 of them used',
    'Window: large: how much code the model is shown',
  ]);
  const latencyMs = { p50: null, p95: null };
  expect(rowsOf(statusPage({ state: 'starting', latencyMs }, []))).toEqual(['Suggestions: none yet']);
});

it('is a page that runs and loads nothing, whatever a server says', () => {
  const html = statusPage({ ...STATUS, note: '<script>alert(1)</script>' }, [['Model', '<img src=x onerror="y">']]);
  expect(hasStrictPolicy(html)).toBe(true);
  expect(html).not.toMatch(/<script|<img/);
  expect(rowsOf(html)).toContain('Model: <img src=x onerror="y">');
});

it('agrees with the hover of the status bar, also after a change', () => {
  const webview = { html: '' };
  window.createWebviewPanel.mockReturnValue({ webview, reveal: () => undefined, onDidDispose: () => undefined, dispose: () => undefined });
  const made = vi.spyOn(window, 'createStatusBarItem');
  const status = new StatusItem('menu', '/home/me/config.toml');
  const item = made.mock.results[0]!.value as { tooltip: string; accessibilityInformation: { label: string } };
  status.update(STATUS);
  status.showPage();
  const hover = () => item.tooltip.split('\n');
  expect(hover()).toEqual(['Model: m', 'Calibrator: shipped, 812 labels', 'State: Ready.', 'Settings file: /home/me/config.toml']);
  expect(rowsOf(webview.html).slice(0, 4)).toEqual(hover());
  status.update({ ...STATUS, state: 'paused', message: 'Paused for 10 minutes.' });
  expect(hover()[2]).toBe('State: Paused for 10 minutes.');
  expect(rowsOf(webview.html).slice(0, 4)).toEqual(hover());
  status.showTier({ tier: '● accept', why: 'It is used in 9 of 10 cases.' });
  expect(hover()[0]).toBe('It is used in 9 of 10 cases.');
  expect(item.accessibilityInformation.label).toMatch(/^It is used in 9 of 10 cases\. Model: m\. /);
});
