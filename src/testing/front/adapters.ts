// LoRA adapters of a fake server: the table of loaded names, which both protocols share. The
// sampler decides what an adapter changes; the fronts decide what a name is answered with.

export type FrontAdapters = {
  /** Adapters at the start: folders by name. Default: none. */
  readonly loaded?: Readonly<Record<string, string>>;
  /** True if a folder holds an adapter. Default: every folder does. */
  readonly exists?: (path: string) => boolean;
  /** True for a server that accepts any name and samples from the base. Default false. */
  readonly ignoresNames?: boolean;
};

/** A loaded adapter. Its folder changes if it is exchanged in place, for calls in flight as well. */
export class FrontAdapter {
  readonly name: string;
  path: string;
  #calls = 0;
  #waiting: (() => void)[] = [];

  constructor(name: string, path: string) {
    this.name = name;
    this.path = path;
  }

  /** Runs a call under it. */
  async hold<T>(work: () => Promise<T>): Promise<T> {
    this.#calls++;
    try {
      return await work();
    } finally {
      this.#calls--;
      if (this.#calls === 0) for (const wake of this.#waiting.splice(0)) wake();
    }
  }

  /** Resolves when no call runs under it. */
  unused(): Promise<void> {
    return new Promise((resolve) => {
      if (this.#calls === 0) resolve();
      else this.#waiting.push(resolve);
    });
  }
}

export class AdapterTable {
  readonly ignoresNames: boolean;
  readonly #exists: (path: string) => boolean;
  readonly #loaded = new Map<string, FrontAdapter>();
  /** The last folder of every name that was ever loaded. */
  readonly #known = new Map<string, string>();

  constructor({ loaded = {}, exists = () => true, ignoresNames = false }: FrontAdapters) {
    this.ignoresNames = ignoresNames;
    this.#exists = exists;
    for (const [name, path] of Object.entries(loaded)) this.load(name, path);
  }

  get loaded(): readonly FrontAdapter[] {
    return [...this.#loaded.values()];
  }

  exists(path: string): boolean {
    return this.#exists(path);
  }

  find(name: string): FrontAdapter | null {
    return this.#loaded.get(name) ?? null;
  }

  load(name: string, path: string): FrontAdapter {
    const adapter = new FrontAdapter(name, path);
    this.#loaded.set(name, adapter);
    this.#known.set(name, path);
    return adapter;
  }

  /** Loads a name that was unloaded from its last folder, as SGLang does; `null` if it was never loaded. */
  reload(name: string): FrontAdapter | null {
    const path = this.#known.get(name);
    return path === undefined ? null : (this.find(name) ?? this.load(name, path));
  }

  unload(name: string): FrontAdapter | null {
    const adapter = this.find(name);
    this.#loaded.delete(name);
    return adapter;
  }
}
