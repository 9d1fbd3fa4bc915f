// The status in words and as an icon.

import type { Calibrator, Legend, Status } from './wire';

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

/** What the server says of its state, or the state in words. */
export function stateWords({ state, message }: Status, legend: Legend = {}): string {
  return message || (legend[state]?.words ?? WORDS[state] ?? state);
}

/** Where a calibrator comes from, its state where that is another word, and its labels. */
export function calibratorText({ source, state, n }: Calibrator): string {
  return `${[...new Set([source, state])].join(', ')}, ${n} labels`;
}

/** What everybody is to know, by name: the hover of the status bar and the page of details have the same. */
export function statusLines(status: Status, legend: Legend, configFile: string): (readonly [string, string])[] {
  const { model, slow, calibrator } = status;
  const meaning = calibrator && (legend[calibrator.state]?.words ?? CALIBRATOR_WORDS[calibrator.state]);
  const labels = calibrator && `${calibratorText(calibrator)}${meaning ? `: ${meaning}` : ''}`;
  return [
    ['Model', slow || model || 'none is loaded'],
    ['Calibrator', labels || 'none was used yet'],
    ['State', stateWords(status, legend)],
    ['Settings file', configFile],
  ];
}
