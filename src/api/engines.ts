// The registry of engines. An engine that ships with the package is a folder of src/engines and a
// row here.

import { expertOptions } from "../environments/bookshop/expert-options.ts";
import { llamaCppOptions } from "../engines/llama-cpp/options.ts";
import { serverOptions } from "../engines/server-options.ts";
import { vllmOptions } from "../engines/vllm/options.ts";
import type { EngineRow, LocalRow, ServerRow } from "../parts/engine.ts";
import { type OptionTable, optionsOfAll } from "../parts/setting.ts";

const server = <Own extends OptionTable>(
  row: Omit<ServerRow<Own>, "type" | "options">,
): ServerRow<Own, Own & typeof serverOptions> => ({
  type: "server",
  options: { ...serverOptions, ...row.own },
  ...row,
});
const local = <Options extends OptionTable>(row: Omit<LocalRow<Options>, "type">): LocalRow<Options> => ({
  type: "local",
  ...row,
});

const rows = {
  sglang: server({
    product: "an SGLang",
    defaultPort: 30_000,
    pauseModes: ["abort", "retract", "in-place"],
    own: {},
    load: async () => ({ create: (await import("../engines/sglang/index.ts")).createSglangEngine }),
  }),
  vllm: server({
    product: "a vLLM",
    defaultPort: 8000,
    pauseModes: ["abort", "in-place"],
    own: vllmOptions,
    load: async () => ({ create: (await import("../engines/vllm/index.ts")).createVllmEngine }),
  }),
  "llama-cpp": local({
    help: "a GGUF file in this process",
    samplesHere: true,
    required: { option: "gguf", what: "weights" },
    needsModel: () => false,
    options: llamaCppOptions,
    load: () => import("../engines/llama-cpp/open.ts"),
  }),
  embedded: local({
    help: "a small model in this process",
    samplesHere: true,
    required: null,
    needsModel: (environment) => environment !== "bookshop",
    options: {},
    load: () => import("../engines/embedded/open.ts"),
  }),
  expert: local({
    help: "a script for the bookshop and tau2-bench/telecom",
    samplesHere: false,
    required: null,
    needsModel: () => false,
    options: expertOptions,
    load: () => import("./open-expert.ts"),
  }),
};

/** Name of an engine of the registry. */
export type RegisteredEngine = keyof typeof rows;

/** Row of the engine that is used for servers whose kind is not named. */
export const defaultServer: ServerRow = rows.sglang;
export const engineRows: Readonly<Record<RegisteredEngine, EngineRow>> = rows;
export const engineNames = Object.keys(rows) as readonly RegisteredEngine[];
/** The options of all engines. */
export const engineOptions = optionsOfAll(rows);
export const engineOptionNames = Object.keys(engineOptions) as readonly (keyof typeof engineOptions)[];

/** The engines that need no server and what they are, for the help. */
export const localEngines: readonly string[] = Object.entries<EngineRow>(rows).flatMap(([name, row]) =>
  row.type === "server" ? [] : [row.help === "" ? name : `${name}: ${row.help}`],
);

/** The row of a name; `null` for an engine that a program gives as a value, and for none. */
export function engineRow(name: string | null): EngineRow | null {
  return name !== null && Object.hasOwn(rows, name) ? engineRows[name as RegisteredEngine] : null;
}
