import type { SharedBase } from "./shared-base.ts";
import type { Shape } from "./table-shape.ts";
import type { TauTool } from "./tool.ts";

/** What is ours in a domain: behaviour. Its texts, tables and tasks are data of the benchmark (`domain-data.ts`). */
export type TauDomain = {
  readonly name: string;
  /** Its tables, each a file of records by id, and the shape of a record. */
  readonly tables: Readonly<Record<string, Shape>>;
  readonly splits: readonly string[];
  readonly tools: readonly TauTool[];
  /** Calls of these end the episode, whatever they answer, and are left out when gold actions are replayed. */
  readonly terminating: ReadonlySet<string>;
  /** A record that points to one that is not there, or lacks what its kind needs, in words; `null` when there is none. */
  findBrokenReference(this: void, base: SharedBase): string | null;
};
