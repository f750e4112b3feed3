// The import directions of src/, as data. This file is the authority; changing it is a design
// decision, argued in docs/decisions.md. `problems.mjs` enforces it, and reports unused
// permissions.
//
// A module is a folder below src/. Adapters ("engines/*") are modules of their own, each with an
// entry, and never import each other. Modules that are not built yet are listed so that they are
// built in the right direction.

/**
 * @typedef {object} Module
 * @property {readonly string[]} imports Modules it may import; itself always. "*": every module but those in `except`.
 * @property {readonly string[]} [except]
 * @property {Readonly<Record<string, string>>} [packages] Package to the file or folder (below src/) that may import it;
 *   "*": every file of the module.
 * @property {boolean} [browser] True: runs in a browser, so nothing of `node:`. Default false.
 * @property {boolean} [open] True: has no public entry, every file of it may be imported. Default false: only `index.ts`.
 * @property {readonly string[]} [entries] Files beside `index.ts` that others may import: contract files.
 * @property {boolean} [isInternal] True: not offered by package.json. Default false: its entry is a subpath.
 * @property {string} [peer] An optional peer that who imports the entry has installed.
 * @property {string} [loads] The file (below src/) that may `import()` what is named at run time.
 */

/** @type {Readonly<Record<string, Module>>} */
export const modules = {
  // Domain-free helpers, one function per file: a public entry would only be a list of them.
  lib: { imports: [], packages: { zod: "lib/any-names.ts" }, browser: true, open: true, isInternal: true },
  // Domain-free helpers for Node: folders, streams, decoders.
  // Optional peers are named at run time, and loaded in one place.
  system: { imports: ["lib"], open: true, isInternal: true, loads: "system/peer-library.ts" },
  // Python's values, text and JSON, for places where our output must match byte for byte.
  "python-semantics": { imports: [], browser: true, open: true, isInternal: true },
  // Contracts are imported from the file that states them.
  core: { imports: ["lib", "python-semantics"], browser: true, open: true },

  // Settings, and the rows of parts that are chosen by name. The options of a part are in its folder.
  parts: { imports: ["core", "lib", "http"], packages: { zod: "parts/setting.ts" }, open: true, isInternal: true },

  tokenizers: {
    imports: ["core", "lib", "system", "python-semantics", "renderers"],
    // The tokenizer of the demonstrations reads no files.
    entries: ["readable-tokenizer.ts", "gguf-metadata.ts"],
  },
  parsers: {
    imports: ["core", "lib", "python-semantics"],
    packages: { entities: "parsers/formats/function-tags.ts" },
    entries: ["on-demand.ts", "all-formats.ts"],
    browser: true,
  },
  renderers: {
    imports: ["core", "lib", "python-semantics", "parsers"],
    // The bundled chat template is text, and written beside the tokenizers that are trained here.
    entries: ["on-demand.ts", "bundled-template.ts"],
    browser: true,
  },
  trajectories: { imports: ["core", "lib"], browser: true },

  // The HTTP pool that engines and models behind an API share, and the listening socket that
  // gateway and service share.
  http: {
    imports: ["core", "lib", "system"],
    packages: {
      undici: "http/http-pool.ts",
      "eventsource-parser": "http/event-stream.ts",
      ws: "http/web-socket.ts",
    },
    // Servers that only receive requests do not load the client; some modules read addresses and
    // secrets without making calls.
    entries: ["received-body.ts", "base-url.ts", "redactor.ts"],
    isInternal: true,
  },
  "engines/*": { imports: ["core", "lib", "http", "parts"], entries: ["options.ts", "open.ts"] },
  // External programs that this process starts, and the start time of a process.
  programs: { imports: [], entries: ["process-begin.ts"], isInternal: true },
  // Shared by the engines that sample in this process: parsing of requests, choice of tokens.
  engines: { imports: ["core", "lib", "parts"], open: true, isInternal: true },
  "engines/embedded": { imports: ["core", "lib", "parts", "learner/model", "engines"], entries: ["open.ts"] },
  "engines/llama-cpp": {
    imports: ["core", "lib", "system", "parts", "engines", "tokenizers"],
    entries: ["options.ts", "open.ts"],
  },
  // API with which users define environments.
  environments: {
    imports: ["core", "lib", "python-semantics"],
    packages: { zod: "environments/check-definition.ts" },
  },
  "environments/*": {
    imports: ["core", "lib", "python-semantics", "parts"],
    entries: ["options.ts", "open.ts", "expert-options.ts", "expert-sampler.ts"],
  },
  // Tasks as data: files and functions, for environments that have no tasks of their own.
  "task-files": {
    imports: ["core", "lib", "system", "python-semantics"],
    packages: { fzstd: "task-files/parquet-process.ts", hyparquet: "task-files/parquet-process.ts" },
    isInternal: true,
  },
  // The contract of environments that run elsewhere; each protocol has a folder below it.
  "environments/remote": { imports: ["core", "lib", "python-semantics", "http", "parts"], entries: ["options.ts"] },
  "environments/remote/*": { imports: ["core", "lib", "python-semantics", "environments/remote", "http"] },
  // Code that benchmarks with tables of records share.
  "environments/tables": { imports: ["python-semantics"], isInternal: true },
  // Tasks in a file have agendas, like those in a definition.
  "environments/remote/mcp": {
    imports: ["core", "lib", "system", "python-semantics", "http", "environments", "environments/remote", "programs"],
  },
  // Upstream checkouts of benchmarks: Python, read as data by a parser, and the folders that are
  // prepared from them.
  "environments/checkout": {
    imports: ["core", "system", "python-semantics", "parts"],
    packages: { "@lezer/python": "environments/checkout/python-source.ts", "@lezer/common": "*" },
    open: true,
    isInternal: true,
  },
  "environments/tau-bench": {
    imports: ["core", "lib", "python-semantics", "parts", "environments/checkout", "environments/tables"],
    entries: ["open.ts"],
    packages: { "@lezer/common": "environments/tau-bench/checkout/" },
  },
  "environments/tau2-bench": {
    imports: ["core", "lib", "python-semantics", "parts", "environments/checkout", "environments/tables"],
    entries: ["options.ts", "open.ts"],
    packages: {
      "smol-toml": "environments/tau2-bench/domain-data.ts",
      "@lezer/common": "environments/tau2-bench/checkout/",
    },
  },
  // Tasks of Harbor in sandboxes of this machine.
  "environments/harbor": {
    imports: ["core", "lib", "python-semantics", "parts", "programs"],
    entries: ["options.ts", "open.ts"],
    packages: {
      "smol-toml": "environments/harbor/task-file.ts",
      zod: "environments/harbor/task-file.ts",
    },
  },
  // Models behind an API, for simulated users and for agents that are evaluated.
  "chat-models": {
    imports: ["core", "lib", "python-semantics", "http"],
    loads: "chat-models/provider-library.ts",
    // The contract, the prices for counting a budget, and the failures of models that simulate
    // users.
    entries: ["chat-model.ts", "model-failure.ts"],
  },
  users: {
    imports: ["core", "lib", "python-semantics", "parts", "chat-models"],
    packages: { zod: "users/recording-user.ts" },
    // Users are loaded by name, one at a time.
    entries: ["on-demand.ts"],
  },
  agents: { imports: ["core", "lib", "python-semantics"], packages: { ajv: "*" }, entries: ["on-demand.ts"] },
  // Rates, intervals and comparisons: pure functions of numbers.
  statistics: { imports: ["lib"], browser: true, isInternal: true },
  // Judges are models behind an API.
  graders: {
    imports: ["core", "lib", "system", "python-semantics", "statistics", "chat-models", "rollout"],
    packages: { zod: "*" },
  },

  // The loop of the program that this package grew out of, kept for comparison in one folder.
  "rollout/slime-tau": { imports: ["core", "python-semantics"], browser: true },
  store: {
    imports: ["core", "lib", "system", "python-semantics", "trajectories", "programs"],
    // A starting run loads nothing that reads runs.
    // `recorded-episode.ts` is read by the check of rows only.
    entries: ["run-store.ts", "writing.ts", "recorded-episode.ts"],
  },
  // Jobs for workers in other processes. The contract is in its own file.
  queue: { imports: ["core", "lib"], packages: { zod: "*" }, entries: ["job-queue.ts"], isInternal: true },
  "queue/nats": {
    imports: ["core", "lib", "system", "queue"],
    // Addresses are checked in every run.
    entries: ["nats-address.ts"],
    isInternal: true,
  },
  rollout: {
    imports: ["core", "lib", "python-semantics", "trajectories", "store", "queue"],
    // Without workers and producer; rankings are loaded by runs that have one.
    entries: ["loop.ts", "rank-group.ts"],
  },
  // Files that other tools wrote, read for people and for comparisons.
  foreign: { imports: ["core", "system", "python-semantics"], isInternal: true },
  export: {
    imports: ["core", "system", "store", "trajectories"],
    packages: { "hyparquet-writer": "export/files.ts", hyparquet: "export/read-rows.ts" },
    // The rows that a rollout writes beside its groups; the check of rows, which a rollout does not load.
    entries: ["slime.ts", "check-rows.ts", "read-rows.ts", "row-kinds.ts"],
  },

  // Node's own server and no framework: only the socket reports whether an answer was delivered.
  // Programs under evaluation are answered by models behind an API.
  gateway: {
    imports: [
      ...["core", "lib", "system", "python-semantics", "http", "trajectories", "rollout", "store", "chat-models"],
      "programs",
    ],
    packages: { zod: "*" },
  },
  // Our environments, served to external programs.
  "env-server": {
    imports: ["core", "lib", "python-semantics", "http", "agents", "rollout"],
    packages: { ws: "*" },
  },
  // A provider of a client library for the gateway in the same process; the library writes the dialect.
  "ai-sdk": {
    imports: ["gateway"],
    packages: { "@ai-sdk/openai-compatible": "*" },
    peer: "@ai-sdk/openai-compatible",
  },
  service: {
    imports: ["core", "lib", "python-semantics", "http", "rollout", "store"],
    packages: { hono: "*", "@hono/node-server": "*", zod: "*" },
  },
  // Names of shipped checkpoints are read without loading one.
  "learner/model": { imports: ["core", "lib", "system"], entries: ["shipped-checkpoints.ts"] },
  learner: {
    imports: ["core", "lib", "system", "trajectories", "rollout", "store", "statistics", "learner/model"],
    packages: { zod: "*" },
  },
  // A model in a Python process, which is named and started at run time.
  "learner/torch": { imports: ["core", "lib", "http", "learner"], isInternal: true },
  // Makes the shipped checkpoints; composes the learner with their environment.
  "learner/pretraining": {
    imports: [
      "core",
      "lib",
      "system",
      "tokenizers",
      "renderers",
      "environments/bookshop",
      "users",
      "agents",
      "rollout",
      "engines/embedded",
      "learner/model",
      "learner",
    ],
    isInternal: true,
  },
  // Servers that receive curves are called over the shared pool.
  telemetry: {
    imports: ["core", "system", "http"],
    packages: { "prom-client": "telemetry/", "@opentelemetry/api": "telemetry/traces.ts" },
  },

  // The local page over runs: its server, and code that server and page share.
  viewer: {
    imports: [
      ...["core", "lib", "system", "python-semantics", "http", "statistics", "trajectories", "store", "foreign"],
      "viewer/wire",
    ],
    isInternal: true,
  },
  "viewer/wire": { imports: ["core", "lib", "statistics", "trajectories"], browser: true, isInternal: true },

  testing: {
    imports: ["core", "lib", "python-semantics", "http"],
    packages: { hono: "*", "@hono/node-server": "*", zod: "*" },
  },
  // The public functions and the composition of parts from options: implementations are chosen only
  // here.
  api: {
    imports: ["*"],
    except: ["cli"],
    packages: { yaml: "*", zod: "*", "@swc/wasm-typescript": "api/module-hooks.ts" },
    loads: "api/load-environment.ts",
    open: true,
    isInternal: true,
  },
  // Parses flags, calls the public functions and prints.
  cli: {
    imports: ["*"],
    packages: { commander: "*", picocolors: "*", "log-update": "*" },
    isInternal: true,
  },
};

/** src/index.ts is the entry of the package: it re-exports entries. */
export const packageEntry = "index.ts";

/**
 * Tests are inside a module but may import the whole tree: every entry, every declared package, all
 * of `node:`, and these files.
 */
export const openToTests = [
  "queue/nats/broker.test-helper.ts",
  "queue/queue-conformance.test-helper.ts",
  "gateway/gateway-world.test-helper.ts",
  "telemetry/metric-servers.test-helper.ts",
  "chat-models/fake-chat.test-helper.ts",
  "graders/fake-judge.test-helper.ts",
  "parsers/formats/function-tags.ts",
  "http/engine-calls.test-helper.ts",
  "http/handler-client.test-helper.ts",
  "renderers/family-samples.test-helper.ts",
  "renderers/marker-tokenizer.test-helper.ts",
  "renderers/published-templates.test-helper.ts",
  "tokenizers/dialogues.test-helper.ts",
  "engines/plain-params.test-helper.ts",
  "environments/remote/mcp/hostile-server.test-helper.ts",
  "environments/remote/openenv/fake-server.test-helper.ts",
  "environments/remote/ors/fake-server.test-helper.ts",
];
