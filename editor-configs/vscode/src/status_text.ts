// The status in words and as an icon.

import type { Legend, Status } from './wire';

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

// For a server that sends no words for the state, and before there is one.
const WORDS: Readonly<Record<string, string>> = {
  notInstalled: 'not installed',
  noModel: 'no model',
  error: 'not working',
};

// States of the calibrator that a user should know of: with the others the probabilities are as good as they get.
const CALIBRATOR_WORDS: Readonly<Record<string, string>> = {
  learning: 'it has few labels yet, and may still change much',
  drifted: 'certificate revoked: look at the report',
};

/** Whether somebody should look: the bar is then drawn in the colour of warnings. */
export function needsAttention({ state, calibrator }: Status): boolean {
  return state === 'error' || state === 'noModel' || calibrator?.state === 'drifted';
}

/** The text of the status bar item. tier: mark and tier of the suggestion on screen, if there is one. */
export function statusText(status: Status, tier?: string, legend: Legend = {}): string {
  const calm = status.state === 'ready' || status.state === 'busy';
  const words = legend[status.state]?.words ?? WORDS[status.state] ?? status.state;
  const name = calm && status.model ? status.model : `lsp-calib: ${words}`;
  const known = status.calibrator?.state ?? '';
  const calibrator = calm && known in CALIBRATOR_WORDS ? `, ${known}` : '';
  return `${ICONS[status.state] ?? '$(question)'} ${name}${calibrator}${tier ? ` ${tier}` : ''}`;
}

export function statusSentence(status: Status, legend: Legend = {}): string {
  const { state, message, model, slow, calibrator, note, tiers, hidden, latencyMs, ahead } = status;
  const meaning = calibrator && (legend[calibrator.state]?.words ?? CALIBRATOR_WORDS[calibrator.state]);
  const parts = [
    `lsp-calib: ${message || (legend[state]?.words ?? state)}`,
    model && `model ${model}`,
    slow,
    calibrator && `calibrator ${calibrator.state} (${calibrator.source}, ${calibrator.n} labels)${meaning ? `: ${meaning}` : ''}`,
    note,
    tiers && `shown: ${tiers.accept} accept, ${tiers.review} review, ${tiers.reject} reject`,
    hidden && `${hidden} hidden as not sure enough (hideBelow)`,
    typeof latencyMs?.p50 === 'number' && `median ${Math.round(latencyMs.p50)} ms`,
    ahead?.evaluated && `evaluated where the cursor rested: ${ahead.evaluated} tokens, ${ahead.used} of them used`,
  ];
  return parts.filter(Boolean).join(' · ');
}
