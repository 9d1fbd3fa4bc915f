// Takes a screenshot of VS Code (code-server) with a suggestion and its badge; exits 1 if either is missing.
// README.md beside this file says how to get the tools and what the environment variables mean.

import { spawn, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join, resolve } from 'node:path';

const env = (name, fallback) => {
  const value = process.env[name] || fallback;
  if (value === undefined) {
    console.error(`${name} is not set; see README.md beside this script`);
    process.exit(2);
  }
  return value;
};

const tools = resolve(env('VSCODE_TOOLS'));
const vsix = resolve(env('VSIX'));
const serverPath = env('SERVER', 'lsp-calib');
const out = resolve(env('OUT', 'vscode.png'));
const port = env('PORT', '0'); // 0: any free one
const codeServer = env('CODE_SERVER', join(tools, 'node_modules/.bin/code-server'));
const chromium = env('CHROMIUM', '/usr/bin/chromium');
const typed = env('TYPED', '    return su'); // at the end of the file; the last letter asks for a completion
const trusted = JSON.parse(env('TRUSTED', '{}'));
const patience = 1000 * Number(env('TIMEOUT_S', '90'));

const SAMPLE = `"""Statistics of a list of numbers."""


def mean(values: list[float]) -> float:
    """The arithmetic mean of the values."""
    return sum(values) / len(values)


def variance(values: list[float]) -> float:
    """The mean squared distance from the mean."""
    center = mean(values)
    return sum((v - center) ** 2 for v in values) / len(values)


def average(values: list[float]) -> float:
    """Another name for the arithmetic mean."""
`;

const USER_SETTINGS = {
  'security.workspace.trust.enabled': false,
  'workbench.startupEditor': 'none',
  'workbench.secondarySideBar.defaultVisibility': 'hidden',
  'workbench.colorTheme': 'Dark Modern',
  'workbench.tips.enabled': false,
  'chat.disableAIFeatures': true,
  'chat.commandCenter.enabled': false,
  'telemetry.telemetryLevel': 'off',
  'update.mode': 'none',
  'extensions.autoCheckUpdates': false,
  'extensions.ignoreRecommendations': true,
  'git.enabled': false,
  'editor.minimap.enabled': false,
  'editor.fontSize': 16,
  'editor.wordBasedSuggestions': 'off',
  'files.autoSave': 'off',
  'files.exclude': { '**/.vscode': true },
};

const work = mkdtempSync(join(tmpdir(), 'lsp-calib-vscode-'));

/** What the user of this editor has set, on the side where the server runs. */
function writeSettings() {
  const machine = { 'lspCalib.serverPath': serverPath };
  for (const [key, value] of Object.entries(trusted)) {
    machine[`lspCalib.trusted.${key}`] = value;
  }
  for (const [place, settings] of [['User', USER_SETTINGS], ['Machine', machine]]) {
    const folder = join(work, 'data', place);
    mkdirSync(folder, { recursive: true });
    writeFileSync(join(folder, 'settings.json'), JSON.stringify(settings, null, 2));
  }
}

/** A small project whose own settings try to choose the program and the model: they must not get through. */
function sampleWorkspace() {
  const folder = join(work, 'statistics');
  mkdirSync(join(folder, '.vscode'), { recursive: true });
  writeFileSync(join(folder, 'averages.py'), SAMPLE);
  const hostile = {
    'lspCalib.serverPath': '/nonexistent/from-the-workspace',
    'lspCalib.trusted': { model: '/nonexistent/from-the-workspace.gguf' },
    'lspCalib.trusted.model': '/nonexistent/from-the-workspace.gguf',
  };
  writeFileSync(join(folder, '.vscode/settings.json'), JSON.stringify(hostile, null, 2));
  return folder;
}

const codeServerArguments = [
  '--user-data-dir', join(work, 'data'),
  '--extensions-dir', join(work, 'extensions'),
  '--config', join(work, 'config.yaml'),
];
// `node` must be found by code-server's launcher, even where this one was started by its full path.
const childEnv = { ...process.env, PATH: dirname(process.execPath) + delimiter + process.env.PATH };

function installExtension() {
  const run = spawnSync(codeServer, [...codeServerArguments, '--install-extension', vsix], {
    env: childEnv,
    encoding: 'utf8',
  });
  if (run.status !== 0) {
    throw new Error(`the extension was not installed: ${run.error ?? run.stdout + run.stderr}`);
  }
}

/** Starts code-server; resolves to {process, url} once it listens. */
function startCodeServer() {
  const child = spawn(
    codeServer,
    [...codeServerArguments, '--auth', 'none', '--bind-addr', `127.0.0.1:${port}`,
      '--disable-telemetry', '--disable-update-check', '--disable-getting-started-override'],
    { env: childEnv, detached: true, stdio: ['ignore', 'pipe', 'pipe'] },
  );
  return new Promise((found, failed) => {
    let log = '';
    const read = (chunk) => {
      log += chunk;
      const url = log.match(/HTTP server listening on (http:\S+)/);
      if (url) {
        found({ process: child, url: url[1].replace(/\/$/, '') });
      }
    };
    child.stdout.on('data', read);
    child.stderr.on('data', read);
    child.on('error', failed);
    child.on('exit', (code) => failed(new Error(`code-server ended with ${code}:\n${log}`)));
  });
}

/** Texts of the ghost text, the badge and the status bar item, as drawn; '' for what is not there. */
const drawn = (page) =>
  page.evaluate(() => {
    const parts = [...document.querySelectorAll('.editor-instance .view-lines span')];
    const badges = parts.flatMap((span) =>
      ['::before', '::after'].map((side) => ({ span, css: getComputedStyle(span, side) })));
    const badge = badges.find(({ css }) => /\b(accept|review|reject)\b/.test(css.content));
    return {
      ghost: [...document.querySelectorAll('.ghost-text-decoration, .ghost-text')].map((e) => e.textContent).join('').trim(),
      badge: badge ? badge.css.content.replaceAll('"', '') : '',
      badgeColor: badge ? badge.css.color : '',
      status: document.querySelector('.statusbar-item[id*="lspCalib.status"]')?.textContent.trim() ?? '',
    };
  });

async function until(page, wanted, milliseconds) {
  const end = Date.now() + milliseconds;
  let seen = await drawn(page);
  while (!wanted(seen) && Date.now() < end) {
    await page.waitForTimeout(200);
    seen = await drawn(page);
  }
  return seen;
}

async function openFile(page, url, file) {
  const folder = dirname(file);
  const payload = JSON.stringify([['openFile', `vscode-remote://${new URL(url).host}${file}`]]);
  await page.goto(`${url}/?folder=${encodeURIComponent(folder)}&payload=${encodeURIComponent(payload)}`);
  await page.locator('.editor-instance .view-lines').first().waitFor({ timeout: patience });
}

async function suggestion(page) {
  await until(page, (seen) => seen.status && !/starting|loading/.test(seen.status), patience);
  await page.locator('.editor-instance .view-lines').first().click();
  await page.keyboard.press('Control+End');
  await page.keyboard.type(typed, { delay: 80 });
  const complete = (seen) => seen.ghost && seen.badge;
  let seen = await until(page, complete, 15_000);
  for (const end = Date.now() + patience; !complete(seen) && Date.now() < end; ) {
    await page.keyboard.press('Backspace'); // ask again: the model may still have been loading
    await page.keyboard.type(typed.slice(-1));
    seen = await until(page, complete, 10_000);
  }
  return seen;
}

async function main() {
  if (!existsSync(vsix)) {
    throw new Error(`${vsix} is not there: npm run package in editor-configs/vscode`);
  }
  const { chromium: browserType } = createRequire(join(tools, 'package.json'))('playwright-core');
  const file = process.env.FILE ? resolve(process.env.FILE) : join(sampleWorkspace(), 'averages.py');
  writeSettings();
  installExtension();
  const server = await startCodeServer();
  let browser;
  try {
    browser = await browserType.launch({
      executablePath: chromium,
      args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run',
        '--disable-background-networking', '--disable-component-update', '--disable-sync'],
    });
    const page = await browser.newPage({ viewport: { width: 1280, height: 720 } });
    await openFile(page, server.url, file);
    const seen = await suggestion(page);
    await page.keyboard.press('Shift'); // lets the mouse pointer's hover go, changes nothing
    mkdirSync(dirname(out), { recursive: true });
    await page.screenshot({ path: out });
    console.log(JSON.stringify({ ...seen, screenshot: out }));
    return seen.ghost && seen.badge ? 0 : 1;
  } finally {
    await browser?.close();
    process.kill(-server.process.pid); // the group that was started above
  }
}

let code = 1;
try {
  code = await main();
} catch (error) {
  console.error(error.message);
} finally {
  if (process.env.KEEP) {
    console.error(`kept: ${work}`);
  } else {
    rmSync(work, { recursive: true, force: true, maxRetries: 5, retryDelay: 300 });
  }
}
process.exit(code);
