import type { Reader } from "./reader";

export interface Named<T = string> {
  readonly name: T;
  greet(other: Named): void;
}

type Pair<K, V> = { [P in keyof K]?: V } & Named;

export enum Colour {
  Red = "red",
  Green = "green",
}

/** Adds them. */
export const add = (a: number, b: number): number => a + b;

@Injectable()
export abstract class Store<T extends Named> implements Reader {
  private readonly items: Map<string, T> = new Map();

  constructor(private url: string, public count?: number) {
    this.items.clear();
  }

  /**
   * Finds one.
   */
  @Cached({ seconds: 5 })
  async find(name: string): Promise<T | undefined> {
    const found = this.items.get(name) as T;
    return found ?? (await this.load<T>(name));
  }

  abstract load<U>(name: string): Promise<U>;

  get size(): number {
    return this.items.size;
  }
}

export default function main(this: Window, { argv }: { argv: string[] }) {
  const [first, ...rest] = argv;
  let total = 0;
  for (let i = 0; i < rest.length; i++) {
    total += rest[i]!.length;
  }
  return first satisfies string;
}
