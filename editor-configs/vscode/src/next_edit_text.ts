// The next edit in words: what stands behind its line, and in the status bar.

import { markOf } from './badge_text';
import type { Legend, Tier } from './wire';

const LONGEST = 24;

/** A text in a message: in one line, and not long. */
function shortened(text: string): string {
  const characters = [...text.replace(/\s+/g, ' ').trim()];
  return characters.length <= LONGEST ? characters.join('') : `${characters.slice(0, LONGEST - 1).join('')}…`;
}

/**
 * What the end of the line says of an edit: the new text; of an insertion also the tokens between which it goes, for only the
 * place is marked. '' for a removal. start: the character of the line where it begins.
 */
export function previewOf(old: string, text: string, line: string, start: number): string {
  const shown = shortened(text);
  if (shown === '' || old !== '') {
    return shown && `→ ${shown}`;
  }
  const before = /(?:[\p{L}\p{N}_]+|\S)\s*$/u.exec(line.slice(0, start))?.[0] ?? '';
  const after = /^\s*(?:[\p{L}\p{N}_]+|\S)/u.exec(line.slice(start))?.[0] ?? '';
  return `→ ${before}${text.split(/\r\n|\r|\n/)[0]}${after}`;
}

/** "`size` to `width`". */
export function editWords(old: string, text: string): string {
  if (old === '') return `insert \`${shortened(text)}\``;
  return text === '' ? `remove \`${shortened(old)}\`` : `\`${shortened(old)}\` to \`${shortened(text)}\``;
}

/** For the status bar. line: from 0. name: of the document, if it is another one. */
export function outOfSight(edit: { old: string; text: string; tier: Tier }, line: number, name: string | undefined, legend: Legend): string {
  const where = `${name === undefined ? '' : `${name} `}line ${line + 1}`;
  return `next edit: ${editWords(edit.old, edit.text)}, ${where} ${markOf(edit.tier, legend)}`;
}
