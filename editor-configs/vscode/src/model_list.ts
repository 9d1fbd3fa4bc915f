// The models to choose from, each with what it costs and how good it is.

/** A model as `lsp-calib models list --json` says. */
export interface Listed {
  readonly name: string;
  readonly kind: string;
  readonly title: string;
  readonly licence: string;
  readonly notice: string | null;
  readonly bytes: number | null;
  readonly installed: boolean;
  /** Of memory, an estimate. */
  readonly memoryBytes: number;
  readonly fits: boolean | null;
  readonly speed: { readonly p50Ms: number } | null;
  /** The share of n lines of Python that the model wrote as they were. Servers before it send none. */
  readonly quality?: { readonly right: number; readonly n: number } | null;
  readonly recommended?: boolean;
}

export interface Choice {
  readonly label: string;
  readonly description: string;
  readonly detail: string;
  readonly model: Listed;
}

/** The models that complete: the current one, those that are there, then those that the list knows a download of. */
export function choices(listed: readonly Listed[], current: string | undefined): Choice[] {
  const distance = ({ name, installed, bytes }: Listed) => (name === current ? 0 : installed ? 1 : bytes ? 2 : 3);
  const models = listed.filter(({ kind }) => kind === 'language').sort((a, b) => distance(a) - distance(b));
  return models.map((model) => ({
    label: model.name === current ? `$(check) ${model.title}` : model.title,
    description: description(model, model.name === current),
    detail: detail(model),
    model,
  }));
}

function description({ installed, bytes, licence, recommended }: Listed, isCurrent: boolean): string {
  const size = bytes ? `${Math.round(bytes / 1e6)} MB` : 'size unknown';
  const state = isCurrent ? 'current' : installed ? 'installed' : `download ${size}`;
  return [state, recommended && 'recommended', licence].filter(Boolean).join(' · ');
}

function detail({ memoryBytes, fits, quality, speed, notice }: Listed): string {
  const memory = `${(memoryBytes / 1e9).toFixed(1)} GB of memory`;
  const right = quality ? `${Math.round(100 * quality.right)} % of ${quality.n} Python lines right` : 'quality not measured';
  const parts = [
    fits === false ? `${memory}, more than is free` : memory,
    right,
    speed && `${Math.round(speed.p50Ms)} ms a key here`,
    notice?.replaceAll('\n', ' '),
  ];
  return parts.filter(Boolean).join(' · ');
}
