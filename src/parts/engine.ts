// The contract of engines that are chosen by name: what a row of the registry holds, and what an
// engine is opened with. A server's engine is created from its address, and the first contact is
// made by the caller; an engine in this process opens itself.

import type {
  AdapterControl,
  Engine,
  EngineActivitySource,
  EngineControl,
  EngineLoadSource,
  EpisodeHolder,
  Renderer,
  Tokenizer,
} from "../core/index.ts";
import type { ServerFacts } from "../http/index.ts";
import type { OptionTable, SettingValues } from "./setting.ts";

/** An engine that is open, in this process. */
export type OpenedEngine = {
  readonly engine: Engine & Partial<EpisodeHolder & EngineActivitySource>;
  readonly weightVersion: string | null;
};

export type ConnectedEngine = {
  readonly engine: Engine & Partial<EngineLoadSource & EpisodeHolder & EngineActivitySource & AdapterControl>;
  /** Address of the engine, safe to show. */
  readonly address: string;
  readonly weightVersion: string | null;
  close(): Promise<void>;
};

/** Access to a server: a key, the value of its `Authorization` header, or neither. */
export type Access = { readonly apiKey: string | null; readonly authorization: string | null };

/** Address, access and timeouts for the calls to one server. What is absent has the engine's own default. */
export type ServerOptions = Access & {
  readonly url?: string;
  readonly host?: string;
  readonly port?: number;
  /** Deadline of one sampling call. */
  readonly timeoutMs: number;
  readonly connectTimeoutMs?: number;
  readonly firstByteTimeoutMs?: number | null;
  /** Maximum number of connections. */
  readonly connections?: number;
  /** Vocabulary size of the served model, padded rows included; `null` if unknown. */
  readonly vocabularySize?: number | null;
  /** LoRA adapter that samples. Default `null`: the base. */
  readonly adapter?: string | null;
  /** True to request the reply in pieces; the result is the same. */
  readonly stream?: boolean;
  /** Called when the server's replies are not what training needs. Default: emits a process warning. */
  readonly onWarning?: (warning: { readonly message: string }) => void;
};

/** Methods that engines for servers provide for the first contact. */
export type ServerEngine = Engine &
  EngineControl &
  AdapterControl &
  EngineLoadSource & {
    readonly address: string;
    isReady(options: { readonly signal?: AbortSignal }): Promise<boolean>;
    serverFacts(text: string, options: { readonly signal?: AbortSignal }): Promise<readonly ServerFacts[]>;
    droppedParameters?(
      names: readonly string[],
      options: { readonly signal?: AbortSignal },
    ): Promise<readonly string[]>;
  };

/** Row of an engine whose server runs elsewhere. */
export type ServerRow<Own extends OptionTable = OptionTable, Options extends OptionTable = OptionTable> = {
  readonly type: "server";
  /** The server's product with its article, such as "an SGLang". */
  readonly product: string;
  readonly defaultPort: number;
  /** Ways in which the server can be paused. */
  readonly pauseModes: readonly ("abort" | "retract" | "in-place")[];
  /** Options of this kind of server. */
  readonly own: Own;
  /** These, and those of every server. */
  readonly options: Options;
  load(): Promise<{ create(this: void, server: ServerOptions & SettingValues<Own>): ServerEngine }>;
};

/** Parts and options with which an engine in this process is opened. */
export type EngineContext<Values> = {
  /** The engine's own options. */
  readonly options: Values;
  readonly model: {
    /** Folder of the model; `null` for the readable tokenizer, which has no weights. */
    readonly folder: string | null;
    readonly tokenizer: Tokenizer;
    readonly renderer: Renderer;
  };
  /** Maximum number of concurrent calls. */
  readonly concurrency: number;
  /** Context that was requested; `null` to leave it to the engine. */
  readonly maxContextTokens: number | null;
  /** Name of the environment that is run. */
  readonly environment: string;
  /** Folder that relative paths start from. */
  readonly cwd: string;
  /** Receives what people should know about the engine before the run. */
  readonly onNotice: (message: string) => void;
};

/** Row of an engine in this process. */
export type LocalRow<Options extends OptionTable = OptionTable> = {
  readonly type: "local";
  /** The engine in a few words, for the help; "" if its name is enough. */
  readonly help: string;
  /** True if a model samples in this process, so that more processes do not make it faster. */
  readonly samplesHere: boolean;
  /** The option without which the engine cannot be opened, and what it names; `null` if there is none. */
  readonly required: { readonly option: keyof Options & string; readonly what: string } | null;
  /** True if a run of this environment needs a model folder (`--model`). */
  needsModel(environment: string): boolean;
  readonly options: Options;
  /** Imports the engine; `openEngine` rejects with a `ConfigurationError` for settings that the user can correct. */
  load(): Promise<{ openEngine(this: void, context: EngineContext<SettingValues<Options>>): Promise<OpenedEngine> }>;
};

export type EngineRow = ServerRow | LocalRow;
