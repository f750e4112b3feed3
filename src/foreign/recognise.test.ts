import { mkdtemp, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { recogniseForeignFile } from "./recognise.ts";

const row = { tokens: [1, 2], response_length: 1 };
const cases: readonly (readonly [name: string, text: string, format: string | null])[] = [
  ["slime.jsonl", `${JSON.stringify(row)}\n`, "slime"],
  [
    "long.jsonl",
    `${JSON.stringify({ response_length: 1, tokens: Array.from({ length: 600_000 }, () => 7) })}\n`,
    "slime",
  ],
  ["bom.jsonl", `\uFEFF${JSON.stringify(row)}\n`, "slime"],
  ["traces.jsonl", '{"id": "a", "traces": []}\n', "verifiers-traces"],
  ["results.jsonl", '{"completion": [], "reward": 1}\n', "verifiers"],
  ["one.json", '{\n  "schema_version": "ATIF-v1.7",\n  "steps": []\n}', "atif"],
  ["inspect.json", '{"version": 2, "eval": {"task": "a"}, "samples": []}', "inspect"],
  ["late.json", `{"version":2,"samples":["${"x".repeat(2 << 20)}"],"eval":{"task":"a"}}`, "inspect"],
  ["tau.json", '[{"task_id": 0, "reward": 1, "traj": []}]', "tau-bench"],
  ["tau2.json", '{"info": {"environment_info": {}}, "tasks": [', "tau2-bench"],
  ["log.eval", "PK\u0003\u0004 and more", "inspect"],
  ["not.eval", "PK", null],
  ["package.json", '{"name": "a", "version": "1.0.0"}', null],
  ["rows.jsonl", '{"text": "a"}\n{"tokens": [], "response_length": 1}\n', null],
  ["list.json", "[1, 2, 3]", null],
  ["empty.json", "", null],
  ["notes.txt", JSON.stringify(row), null],
];

it("recognises files by their beginnings and ends", async () => {
  const folder = await mkdtemp(join(tmpdir(), "trainable-agents-recognise-"));
  for (const [name, text, format] of cases) {
    await writeFile(join(folder, name), text);
    expect([name, await recogniseForeignFile(join(folder, name))]).toEqual([name, format]);
  }
});
