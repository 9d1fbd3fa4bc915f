// The page with the details of the status. It runs no script and loads nothing.

import type { Status } from './wire';

const STYLE = `
body { max-width: 50em; margin: 0 auto; padding: 1em 2em; font: var(--vscode-font-size) / 1.5 var(--vscode-font-family); color: var(--vscode-foreground); }
h1 { font-size: 1.6em; font-weight: normal; }
h2 { margin-top: 1.6em; font-size: 1.2em; font-weight: normal; }
table { border-collapse: collapse; width: 100%; }
th, td { padding: .35em .8em .35em 0; text-align: left; vertical-align: top; border-bottom: 1px solid var(--vscode-widget-border, #8884); }
th { width: 13em; font-weight: normal; color: var(--vscode-descriptionForeground); }
td { overflow-wrap: anywhere; }`;

type Row = readonly [string, string];

/** lines: what the hover of the status bar says, too. */
export function statusPage(status: Status, lines: readonly Row[]): string {
  const details = sinceStart(status);
  const counted = details.length > 0 ? details : [['Suggestions', 'none yet'] as const];
  return (
    '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">' +
    `<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">` +
    `<title>lsp-calib status</title><style>${STYLE}</style></head><body>` +
    `<h1>lsp-calib</h1>${table(lines)}<h2>Since the server was started</h2>${table(counted)}</body></html>\n`
  );
}

/** What is known of the running server, and nothing that is 0. */
function sinceStart(status: Status): Row[] {
  const { tiers, hidden, latencyMs, ahead, window, withheld, cut, certificate, note } = status;
  const shown = tiers && tiers.accept + tiers.review + tiers.reject;
  const rows: (readonly [string, string | false | 0 | null | undefined])[] = [
    ['Suggestions shown', shown && `${shown}: ${tiers.accept} accept, ${tiers.review} review, ${tiers.reject} reject`],
    ['Completions hidden', hidden && `${hidden}, as less likely to survive than hideBelow`],
    ['Answers not offered', byReason(withheld)],
    ['Answers cut off', byReason(cut)],
    ['Time for an answer', latencyMs && typeof latencyMs.p50 === 'number' && duration(latencyMs.p50, latencyMs.p95)],
    ['Evaluated at rest', ahead?.evaluated && `${ahead.evaluated} tokens where the cursor rested, ${ahead.used} of them used`],
    ['Window', window && `${window}: how much code the model is shown`],
    ['Certificate', certificate?.reason],
    ['Note', note],
  ];
  return rows.flatMap(([name, text]) => (text ? [[name, text] as const] : []));
}

function duration(median: number, most: number | null): string {
  return `median ${Math.round(median)} ms${most === null ? '' : `, 95 % within ${Math.round(most)} ms`}`;
}

/** The reasons are names such as `repeatsNextLine`. */
function byReason(counts: Readonly<Record<string, number>> = {}): string {
  const found = Object.entries(counts).filter(([, n]) => n > 0);
  return found.map(([reason, n]) => `${n} (${reason.replaceAll(/[A-Z]/g, (one) => ` ${one.toLowerCase()}`)})`).join(', ');
}

function table(rows: readonly Row[]): string {
  return `<table>${rows.map(([name, text]) => `<tr><th scope="row">${escaped(name)}</th><td>${escaped(text)}</td></tr>`).join('')}</table>`;
}

function escaped(text: string): string {
  return text.replaceAll(/[&<>"']/g, (one) => `&#${one.charCodeAt(0)};`);
}
