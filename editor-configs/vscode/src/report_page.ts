// What a page must say of itself before it is shown in the editor.

/** Whether the first thing that a page's head says of content is that nothing may be loaded and no script run. */
export function hasStrictPolicy(html: string): boolean {
  const head = /^<!doctype html>\s*<html[^>]*><head>(?:<meta (?:charset|name)="[^"]*"(?: content="[^"]*")?>)*/i.exec(html)?.[0];
  const policy = head && /^<meta http-equiv="Content-Security-Policy" content="([^"]*)">/i.exec(html.slice(head.length))?.[1];
  const words = policy?.replaceAll(/&#(x27|39);/g, "'");
  return words !== undefined && words.startsWith("default-src 'none';") && !/script|worker|frame|object/.test(words);
}

/** The page in the editor's colours, whatever the system prefers. */
export function inTheme(html: string, light: boolean): string {
  return html.replace(/<html(?![^>]*data-theme)/, `<html data-theme="${light ? 'light' : 'dark'}"`);
}
