// Parsers by name, each loaded when it is first requested: a rollout loads the one format that its model writes. The names are known at
// once. `all-formats.ts` adds all parsers at once, for callers that cannot wait.

import { ConfigurationError } from "../core/index.ts";
import { remedyFor } from "../lib/nearest.ts";

/** The name of the parsers that read by a checkpoint's own response template, as SGLang has it; vLLM's is "hf". */
export const responseTemplateName = "response_template";

/** True for each server's name of the parsers of a response template. */
export const isResponseTemplate = (name: unknown): boolean => name === responseTemplateName || name === "hf";

export type ParserTableOptions<Parser> = {
  /** Purpose of the parsers in error messages; completes "Cannot ...". */
  readonly task: string;
  /** Imports the module of a parser, by the parser's name. */
  readonly loaders: Readonly<Record<string, () => Promise<Parser>>>;
  /** Further names of the same parser. */
  readonly aliases: Readonly<Record<string, string>>;
  /** Parsers that need no module of their own. Default none. */
  readonly rows?: readonly Parser[];
};

export class ParserTable<Parser extends { readonly name: string }> {
  /** All names, aliases included, sorted. */
  readonly names: readonly string[];
  readonly #options: ParserTableOptions<Parser>;
  readonly #loaded = new Map<string, Parser>();

  constructor(options: ParserTableOptions<Parser>) {
    const { loaders, aliases, rows = [] } = options;
    this.#options = options;
    this.add(rows);
    this.names = [...rows.map(({ name }) => name), ...Object.keys(loaders), ...Object.keys(aliases)].sort();
  }

  /** The first name of a parser. Throws a `ConfigurationError` that lists the available names. */
  firstName(name: string): string {
    const { aliases, task } = this.#options;
    if (!this.names.includes(name)) {
      throw new ConfigurationError(
        `Cannot ${task} with parser "${name}": it does not exist; ${remedyFor(name, this.names)}`,
      );
    }
    return Object.hasOwn(aliases, name) ? aliases[name]! : name;
  }

  /** Loads a parser. Rejects with a `ConfigurationError` that lists the available names. */
  async load(name: string): Promise<Parser> {
    const first = this.firstName(name);
    const parser = this.#loaded.get(first) ?? (await this.#options.loaders[first]!());
    this.add([parser]);
    return parser;
  }

  /**
   * Returns a loaded parser. Throws a `ConfigurationError` for an unknown name, an `Error` for a
   * parser that is not loaded.
   */
  get(name: string): Parser {
    const parser = this.#loaded.get(name) ?? this.#loaded.get(this.firstName(name));
    if (parser !== undefined) return parser;
    throw new Error(`Cannot ${this.#options.task} with parser "${name}": it is not loaded; load it by name first.`);
  }

  /** Adds parsers that were imported directly. */
  add(parsers: readonly Parser[]): void {
    for (const parser of parsers) this.#loaded.set(parser.name, parser);
  }
}
