// A domain's data once read, whatever it was read from: a prepared folder, later an upstream checkout. Immutable and
// shared by all episodes.

import { createHash } from "node:crypto";
import { ConfigurationError } from "../../core/failure.ts";
import type { Task } from "../../core/environment.ts";
import { type Tool, toolFromDefinition } from "../../core/message.ts";
import { dumpJson, type JsonObject, type JsonValue } from "../../python-semantics/json/index.ts";
import type { TauAction } from "./action.ts";
import type { TauDomain } from "./domain.ts";
import { SharedBase } from "./shared-base.ts";
import { shapeProblem } from "./table-shape.ts";

/** The parsed files of a domain, not yet checked. */
export type DomainFiles = {
  /** Where a file or value came from, for messages: table, `tools`, `wiki`, or split name to a path. */
  readonly sources: ReadonlyMap<string, string>;
  readonly tables: ReadonlyMap<string, JsonValue>;
  readonly guidelines: string;
  readonly tools: JsonValue;
  /** By split. */
  readonly tasks: ReadonlyMap<string, JsonValue>;
  /** Digest (hex) of tables, guidelines and tools as they were read. */
  readonly fingerprint: string;
};

/** A task with what only grading knows. */
export type TauTask = {
  readonly task: Task;
  readonly actions: readonly TauAction[];
  /** Texts that must be said for the reward. */
  readonly outputs: readonly string[];
  /** The task as the reference puts it into `info`; shared, not to be changed. */
  readonly info: JsonObject;
};

export type DomainData = {
  readonly domain: TauDomain;
  readonly base: SharedBase;
  readonly guidelines: string;
  readonly tools: readonly Tool[];
  /** By split, in order. */
  readonly tasks: ReadonlyMap<string, readonly TauTask[]>;
};

/** Throws a `ConfigurationError` that names file and place for data the domain cannot work with. */
export function readDomainData(domain: TauDomain, files: DomainFiles): DomainData {
  const refuse = (part: string, problem: string): never => {
    throw new ConfigurationError(
      `Cannot use "${files.sources.get(part) ?? part}" for tau-bench ${domain.name}: ${problem}; restore the file as upstream has it.`,
    );
  };
  const tables = new Map<string, Map<string, JsonObject>>();
  for (const [name, shape] of Object.entries(domain.tables)) {
    const table = files.tables.get(name);
    const problem = shapeProblem(table, { dictOf: shape }, name);
    if (problem !== null) refuse(name, problem);
    tables.set(name, table as Map<string, JsonObject>);
  }
  const base = new SharedBase(tables);
  const broken = domain.findBrokenReference(base);
  if (broken !== null) refuse(broken.split(".")[0]!, broken);
  const toolsProblem = shapeProblem(
    files.tools,
    { listOf: { fields: { function: { fields: { name: "text" } } } } },
    "tools",
  );
  if (toolsProblem !== null) refuse("tools", toolsProblem);
  const tasks = new Map<string, TauTask[]>();
  for (const [split, records] of files.tasks) {
    const problem = shapeProblem(records, { listOf: taskShape }, split);
    if (problem !== null) refuse(split, problem);
    tasks.set(
      split,
      (records as JsonObject[]).map((record, index) => readTask(record, { domain, split, index, files })),
    );
  }
  return {
    domain,
    base,
    guidelines: files.guidelines,
    tools: (files.tools as JsonObject[]).map(toolFromDefinition),
    tasks,
  };
}

const taskShape = {
  fields: {
    user_id: "text",
    instruction: "text",
    actions: { listOf: { fields: { name: "text", kwargs: { dictOf: "any" } } } },
    outputs: { listOf: "text" },
  },
} as const;

/** Keys in the order of the reference's classes: it shows tasks and actions as it declares them. */
function readTask(
  record: JsonObject,
  place: { readonly domain: TauDomain; readonly split: string; readonly index: number; readonly files: DomainFiles },
): TauTask {
  const { domain, split, index, files } = place;
  const actions = (record.get("actions") as JsonObject[]).map((action) => ({
    name: action.get("name") as string,
    kwargs: action.get("kwargs") as JsonObject,
  }));
  const outputs = record.get("outputs") as string[];
  const instruction = record.get("instruction") as string;
  const info: JsonObject = new Map<string, JsonValue>([
    ["user_id", record.get("user_id")!],
    ["actions", actions.map(actionRecord)],
    ["instruction", instruction],
    ["outputs", outputs],
  ]);
  const environment = `tau-bench/${domain.name}`;
  const contentHash = createHash("sha256")
    .update(`${files.fingerprint}\n${dumpJson(info)}`, "utf8")
    .digest("hex");
  const task: Task = {
    id: `${environment}:${split}:${index}`,
    environment,
    split,
    index,
    contentHash,
    instruction,
    agenda: null,
  };
  return { task: Object.freeze(task), actions, outputs, info };
}

/** An action as `info` shows it. */
export function actionRecord({ name, kwargs }: TauAction): JsonObject {
  return new Map<string, JsonValue>([
    ["name", name],
    ["kwargs", kwargs],
  ]);
}
