// Formats of tool calls that a rollout loads, in a process of its own: Node reports each module
// that it has loaded.

import { execFile } from "node:child_process";
import { mkdtemp, readdir, readFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, it } from "vitest";
import { repositoryRoot } from "../../tests/conformance/shared-folder.ts";

const program = join(repositoryRoot(), "dist", "cli", "main.js");

/** File names of the formats that a rollout of one task loads. */
async function loadedFormats(flags: readonly string[]): Promise<readonly string[]> {
  const folder = await mkdtemp(join(tmpdir(), "loaded-formats-"));
  const coverage = join(folder, "coverage");
  const argv = [program, "rollout", "--engine", "expert", "--tasks", "0", "--out", join(folder, "run"), ...flags];
  await promisify(execFile)(process.execPath, argv, {
    cwd: folder,
    env: { ...process.env, NODE_V8_COVERAGE: coverage },
  });
  const urls = new Set<string>();
  for (const file of await readdir(coverage)) {
    const report = JSON.parse(await readFile(join(coverage, file), "utf8")) as { result: { url: string }[] };
    for (const { url } of report.result) urls.add(url);
  }
  expect([...urls].some((url) => url.endsWith("dist/parsers/on-demand.js"))).toBe(true);
  return [...urls].flatMap((url) => /dist\/parsers\/formats\/([\w-]+)\.js$/.exec(url)?.[1] ?? []).sort();
}

it("a rollout loads the format of its own model", async () => {
  expect(await loadedFormats([])).toEqual(["json-blocks"]);
});

it("a rollout loads the formats of the parsers that are named", async () => {
  const flags = ["--tool-parser", "qwen3_coder", "--reasoning-parser", "gpt-oss"];
  expect(await loadedFormats(flags)).toEqual(["function-tags", "gpt-oss", "json-blocks"]);
});
