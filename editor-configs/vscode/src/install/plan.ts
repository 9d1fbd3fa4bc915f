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

/** The encoder, which rates how well a summary fits its code: its card's facts. Optional everywhere. */
export interface Encoder {
  readonly name: string;
  readonly title: string;
  readonly licence: string;
  readonly files: readonly { readonly file: string; readonly bytes: number }[];
  /** What is fetched for the files where the hub cannot be reached. */
  readonly bytesWithoutHub: number;
  /** Changes with the lock of its packages. */
  readonly locks: string;
}

/** What the encoder would fetch here, in bytes; 0 for what is there. */
export interface EncoderOffer {
  readonly encoder: Encoder;
  readonly packages: number;
  readonly files: number;
}

/** `server/manifest.json`, written when the extension is packaged. */
export interface Manifest {
  readonly version: string;
  readonly wheel: string;
  /** Changes with the locks: another one means other packages from the index. */
  readonly locks: string;
  readonly sha256: string;
  readonly models: readonly Model[];
  readonly encoder?: Encoder;
}

/** Bytes to download on a platform, from `server/sizes.json`. similarity: the encoder's packages, where there are any for it. */
export interface Sizes {
  readonly server: number;
  readonly prebuilt: number;
  readonly local: number;
  readonly similarity?: number;
}

export interface Plan {
  readonly python: string;
  readonly engine: Engine;
  readonly sizes: Sizes;
  /** The model that is there already, by its title; undefined where one is to be chosen. */
  readonly installed: string | undefined;
  readonly models: readonly Model[];
  /** Undefined where there is none to fetch. */
  readonly encoder: EncoderOffer | undefined;
}

/** An answer that means yes. model, encoder: what it fetches besides the server. */
export interface Choice {
  readonly label: string;
  readonly model: Model | undefined;
  readonly encoder: Encoder | undefined;
}

const SOURCES = 'From the Python package index and, for models, its hub or that index; every file is checked against a hash:';

/** A size in words, rounded up: a download is never larger than was said. */
export function megabytes(bytes: number): string {
  return bytes > 999e6 ? `${(Math.ceil(bytes / 1e8) / 10).toFixed(1)} GB` : `${Math.ceil(bytes / 1e6)} MB`;
}

/** The answers that mean yes: one for each model, or a single one where a model is there already. */
export function choices(plan: Plan): Choice[] {
  return withModels(plan, '', 0, undefined);
}

/** The same answers, each with the encoder; none where it cannot be fetched. */
export function encoderChoices(plan: Plan): Choice[] {
  const { encoder: offer } = plan;
  return offer ? withModels(plan, 'the encoder', offer.packages + offer.files, offer.encoder) : [];
}

function withModels(plan: Plan, more: string, bytes: number, encoder: Encoder | undefined): Choice[] {
  const all = software(plan) + bytes;
  if (plan.installed !== undefined || plan.models.length === 0) {
    return [{ label: `Install${more && ` with ${more}`} (${megabytes(all)})`, model: undefined, encoder }];
  }
  // Without "Install": a dialog cuts its buttons where they are wider than itself.
  return plan.models.map((model) => ({
    label: `With ${model.title}${more && ` and ${more}`} (${megabytes(all + model.bytes)})`,
    model,
    encoder,
  }));
}

/** The answers that fetch a model or the encoder where the server is there. */
export function fetches(models: readonly Model[], offer: EncoderOffer | undefined): Choice[] {
  const answers: Choice[] = models.map((model) => ({
    label: `Fetch ${model.title} (${megabytes(model.bytes)})`,
    model,
    encoder: undefined,
  }));
  return offer
    ? [...answers, { label: `Fetch the encoder (${megabytes(offer.packages + offer.files)})`, model: undefined, encoder: offer.encoder }]
    : answers;
}

/** The question where the server is there. models: those that can be fetched; none where one is there. */
export function thereQuestion(models: readonly Model[], offer: EncoderOffer | undefined): { message: string; detail: string } {
  const there = models.length ? 'The server is installed already.' : 'The server and a model are installed already.';
  if (models.length === 0 && !offer) {
    return { message: there, detail: '' };
  }
  return {
    message: `${there} Fetch ${models.length ? 'a model for it' : 'the encoder too'}?`,
    detail: [SOURCES, '', ...models.map(line), ...(offer ? [encoderLine(offer)] : [])].join('\n'),
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
      SOURCES,
      '',
      `• the server's dependencies: ${megabytes(sizes.server)} (the server itself came with this extension)`,
      engine,
      ...one,
      ...models,
      ...(plan.encoder ? [encoderLine(plan.encoder)] : []),
      '',
      `They go into a Python environment of the extension's own, made with ${plan.python}. Nothing is sent anywhere.`,
    ].join('\n'),
  };
}

/** For packages that changed with an update of the extension. */
export function updateQuestion(plan: Plan): { message: string; detail: string } {
  const engine = plan.engine === 'local' ? plan.sizes.local : plan.sizes.prebuilt;
  const packages = plan.encoder?.packages ?? 0;
  return {
    message: 'This version of lsp-calib needs newer packages. Fetch them?',
    detail:
      `The server's dependencies (up to ${megabytes(plan.sizes.server)})${packages ? ',' : ' and'} llama.cpp (up to ${megabytes(engine)})` +
      `${packages ? ` and the encoder's packages (up to ${megabytes(packages)})` : ''}, ` +
      'from the Python package index, each checked against a hash. Until then the server goes on as it is.',
  };
}

function software({ engine, sizes }: Plan): number {
  return sizes.server + (engine === 'local' ? sizes.local : sizes.prebuilt);
}

function encoderLine({ encoder, packages, files }: EncoderOffer): string {
  const parts = [
    ...(packages ? [`${megabytes(packages)} of packages`] : []),
    ...(files ? [`${megabytes(files)} of files (${megabytes(encoder.bytesWithoutHub)} where its hub cannot be reached)`] : []),
  ];
  return `• optional: the encoder ${encoder.title} (${encoder.licence}), which rates how well a summary fits its code: ${parts.join(', ')}`;
}

function line(model: Model): string {
  return `• model ${model.title} (${model.licence}): ${megabytes(model.bytes)}, ${kind(model)}`;
}

function kind({ code }: Model): string {
  return code ? 'made for code' : 'small and often wrong on code';
}
