// Requests that real servers were sent, with their replies, for tests of the engines.

import { readFileSync } from "node:fs";
import { join } from "node:path";

import { committedGoldens } from "../../tests/conformance/shared-folder.ts";

export type Recorded = {
  readonly name: string;
  readonly path: string;
  readonly body: Readonly<Record<string, unknown>>;
  readonly status: number;
  readonly reply: string;
};

/** The recordings of `tests/goldens/servers/<name>.jsonl`. */
export function recordedReplies(name: string): readonly Recorded[] {
  const text = readFileSync(join(committedGoldens("servers"), `${name}.jsonl`), "utf8");
  return text
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line) as Recorded);
}
