// The contract of environments that are chosen by name: what a row of the registry holds, and what
// an environment is opened with.

import type { EnvironmentSource } from "../core/index.ts";
import type { OptionTable, SettingValues } from "./setting.ts";

/** An environment and the defaults of its rollouts. */
export type LoadedEnvironment = {
  readonly source: EnvironmentSource;
  readonly defaultSplit: string;
  readonly defaultTasks: string;
};

export type EnvironmentContext<Values> = {
  /** Name of the environment, such as "tau-bench/retail". */
  readonly name: string;
  /** The part of the name after the row's own: a domain, a path or an address; "" if there is none. */
  readonly rest: string;
  /** The environment's own options. */
  readonly options: Values;
  /** The split that will be run, if known: some benchmarks have splits too large to be read needlessly. */
  readonly split: string | null;
  /** Folder that relative paths start from. */
  readonly cwd: string;
  /** Variables of the process, which hold keys. */
  readonly variables: Readonly<Record<string, string | undefined>>;
  readonly limits: {
    /** Deadline of one call. */
    readonly callMs: number;
    readonly gradeMs: number;
    /** Time limit for opening an episode once, counted from when there is room for it. Default: the protocol's own. */
    readonly openMs?: number;
  };
  /** The default export of a module that a task file names; the path is absolute. */
  importDefault(this: void, file: string, what: string): Promise<unknown>;
};

export type EnvironmentRow<Options extends OptionTable = OptionTable> = {
  /**
   * "name": the row's name is the environment's; "family": names are `<row>/<domain>`; "folder": names are
   * `<row>:<path>`; "remote": names are `<row>:<address>`, and episodes run elsewhere.
   */
  readonly type: "name" | "family" | "folder" | "remote";
  /** Pattern of the names of its environments, for the help and for messages. */
  readonly form: string;
  /** All names; none for addresses. */
  readonly names: readonly string[];
  readonly options: Options;
  /** Imports the environment; `openSource` rejects with a `ConfigurationError` for settings that the user can correct. */
  load(): Promise<{
    openSource(this: void, context: EnvironmentContext<SettingValues<Options>>): Promise<LoadedEnvironment>;
  }>;
};
