// Prints, as a line of JSON each, what TypeScript's quick info shows of every function with a name and a body.
//   node quick_info.cjs < LIST_OF_FILES
const fs = require("fs");
const ts = require("typescript");

const files = fs.readFileSync(0, "utf8").split("\n").filter(Boolean);
// Each file counts alone, as for whoever reads one document: nothing that it imports is read.
const options = { allowJs: true, noLib: true, noResolve: true, experimentalDecorators: true, target: ts.ScriptTarget.ESNext, jsx: ts.JsxEmit.Preserve };
function serviceOf(file, text) {
  return ts.createLanguageService({
    getScriptFileNames: () => [file],
    getScriptVersion: () => "1",
    getScriptSnapshot: (name) => (name === file ? ts.ScriptSnapshot.fromString(text) : undefined),
    getCurrentDirectory: () => "/",
    getCompilationSettings: () => options,
    getDefaultLibFileName: () => "",
    fileExists: (name) => name === file,
    readFile: (name) => (name === file ? text : undefined),
  });
}

// A function keeps the name of a variable through these.
const holders = new Set([ts.SyntaxKind.ParenthesizedExpression, ts.SyntaxKind.AsExpression, ts.SyntaxKind.SatisfiesExpression, ts.SyntaxKind.NonNullExpression]);

// The token that names a function: the name of what it is assigned to, or its own.
function nameOf(node, source) {
  if (ts.isConstructorDeclaration(node)) {
    return node.getChildren(source).find((child) => child.kind === ts.SyntaxKind.ConstructorKeyword);
  }
  // Quick info of `[a]() {}` is that of a.
  if (node.name && !ts.isFunctionExpression(node)) return ts.isComputedPropertyName(node.name) ? undefined : node.name;
  let value = node;
  while (holders.has(value.parent.kind) || isFirstArgument(value)) value = value.parent;
  const parent = value.parent;
  if ((ts.isVariableDeclaration(parent) || ts.isPropertyAssignment(parent) || ts.isPropertyDeclaration(parent)) && parent.initializer === value) {
    return parent.name;
  }
  if (ts.isBinaryExpression(parent) && parent.operatorToken.kind === ts.SyntaxKind.EqualsToken && parent.right === value) {
    return ts.isPropertyAccessExpression(parent.left) ? parent.left.name : parent.left;
  }
  return node.name;
}

function isFirstArgument(node) {
  return ts.isCallExpression(node.parent) && node.parent.arguments[0] === node;
}

function isInCall(node) {
  while (holders.has(node.parent.kind)) node = node.parent;
  return isFirstArgument(node);
}

// The overloads of a function, which share its documentation, the first one first.
function overloadsOf(node, source) {
  const siblings = node.parent.members ?? node.parent.statements ?? [];
  const named = (one) => one.kind === node.kind && !one.body && one.name?.getText(source) === node.name?.getText(source);
  return siblings.filter((one) => ts.isFunctionLike(one) && named(one));
}

for (const file of files) {
  const service = serviceOf(file, fs.readFileSync(file, "utf8"));
  const source = service.getProgram().getSourceFile(file);
  const shownAt = (name) => {
    const shown = service.getQuickInfoAtPosition(file, name.getStart(source));
    const tags = (shown?.tags ?? []).map((tag) => `@${tag.name} ${ts.displayPartsToString(tag.text)}`);
    return { text: ts.displayPartsToString(shown?.documentation), tags };
  };
  const textOf = (node) => {
    const { text, tags } = shownAt(nameOf(node, source));
    // Quick info puts what a class says before what its constructor says.
    const ofClass = ts.isConstructorDeclaration(node) && node.parent.name ? shownAt(node.parent.name) : { text: "", tags: [] };
    const own = ofClass.text && text.startsWith(ofClass.text) ? text.slice(ofClass.text.length) : text;
    return [own.trim(), ...tags.filter((tag) => !ofClass.tags.includes(tag))].join("\n").trim();
  };
  const visit = (node) => {
    const name = ts.isFunctionLike(node) && node.body ? nameOf(node, source) : undefined;
    if (name) {
      const texts = [...overloadsOf(node, source).slice(0, 1), node].map(textOf);
      const row = source.getLineAndCharacterOfPosition(name.getStart(source)).line;
      console.log(JSON.stringify({ file, row, name: name.getText(source), texts, call: ts.isExpression(node) && name !== node.name && isInCall(node) }));
    }
    ts.forEachChild(node, visit);
  };
  visit(source);
}
