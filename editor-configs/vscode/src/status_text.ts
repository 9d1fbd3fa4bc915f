// The status in words and as an icon.

import type { Status } from './wire';

// All of one width, so that the bar does not jump at every keystroke.
const ICONS: Readonly<Record<string, string>> = {
  notInstalled: '$(cloud-download)',
  installing: '$(loading~spin)',
  starting: '$(loading~spin)',
  loading: '$(loading~spin)',
  ready: '$(pass)',
  busy: '$(sync~spin)',
  paused: '$(debug-pause)',
  noModel: '$(warning)',
  error: '$(error)',
};

const WORDS: Readonly<Record<string, string>> = {
  notInstalled: 'not installed',
  noModel: 'no model',
};

/** Whether somebody should look: the bar is then drawn in the colour of warnings. */
export function needsAttention({ state }: Status): boolean {
  return state === 'error' || state === 'noModel';
}

/** The text of the status bar item. tier: mark and tier of the suggestion on screen, if there is one. */
export function statusText(status: Status, tier?: string): string {
  const calm = status.state === 'ready' || status.state === 'busy';
  const name = calm && status.model ? status.model : `lsp-calib: ${WORDS[status.state] ?? status.state}`;
  return `${ICONS[status.state] ?? '$(question)'} ${name}${tier ? ` ${tier}` : ''}`;
}

export function statusSentence({ state, message, model, calibrator, note, tiers, latencyMs }: Status): string {
  const parts = [
    `lsp-calib: ${message || state}`,
    model && `model ${model}`,
    calibrator && `calibrator ${calibrator.state} (${calibrator.source}, ${calibrator.n} labels)`,
    note,
    tiers && `shown: ${tiers.accept} accept, ${tiers.review} review, ${tiers.reject} reject`,
    typeof latencyMs?.p50 === 'number' && `median ${Math.round(latencyMs.p50)} ms`,
  ];
  return parts.filter(Boolean).join(' · ');
}
