// Tests against a checkout of the pinned commit, which is not in the repository:
// TAU_BENCH_CHECKOUT=<folder> npx vitest run real-checkout.

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";

import { sharedFolder } from "../../../../tests/conformance/shared-folder.ts";
import { ConfigurationError } from "../../../core/index.ts";
import { createRandom } from "../../../lib/random.ts";
import type { PythonSource } from "../../checkout/python-source.ts";
import { loadFewShotDisplays, loadUserPrompts, parseSource, readTauBenchCheckout } from "./read-checkout.ts";
import { readTasks } from "./read-sources.ts";
import { readUserPromptContents } from "./user-prompts.ts";

const checkout = process.env["TAU_BENCH_CHECKOUT"] ?? "";
const shared = checkout === "" ? null : sharedFolder("tau-bench");

describe.skipIf(shared === null)("a real checkout (skipped without TAU_BENCH_CHECKOUT and ../shared/tau-bench)", () => {
  it("gives every file that the shared layout has, byte for byte, and prompts and displays beside them", async () => {
    const files = await readTauBenchCheckout(checkout);
    const both = sharedFiles(shared ?? "");
    expect(both).toHaveLength(16);
    for (const path of both) {
      const wanted = readFileSync(join(shared ?? "", path));
      expect(Buffer.compare(Buffer.from(files.get(path) ?? "", "utf8"), wanted), path).toBe(0);
    }
    const onlyOurs = [...files.keys()].filter((path) => !both.includes(path));
    expect(onlyOurs).toEqual(["retail/few_shot.jsonl", "airline/few_shot.jsonl", "user_prompts.json"]);
    expect(await loadFewShotDisplays(checkout, "retail")).toHaveLength(69);
    expect(await loadFewShotDisplays(checkout, "airline")).toHaveLength(19);
    const prompts = await loadUserPrompts(checkout);
    expect(prompts?.greeting).toBe("Hi! How can I help you today?");
    expect(prompts?.system("Buy {it}.")).toContain("\n\nInstruction: Buy {it}.\n\nRules:\n");
    expect(prompts?.system(null)).not.toContain("Instruction:");
    expect(prompts?.check({ transcript: "T", response: "R" })).toContain("# Transcript:\nT\n\n# Response:\nR\n\n");
  });

  it("is read or refused with file and line when its sources are changed anywhere", () => {
    const random = createRandom(7);
    const pieces = [
      '"',
      "'",
      "\\",
      "{",
      "}",
      "[",
      "(",
      ")",
      ",",
      "=",
      "\n",
      "#",
      "+",
      "f",
      "0",
      '"""',
      "Task(",
      "[".repeat(9999),
    ];
    const readers: readonly (readonly [string, (source: PythonSource) => unknown])[] = [
      ["tau_bench/envs/airline/tasks_test.py", (source) => readTasks(source, "TASKS")],
      ["tau_bench/envs/user.py", readUserPromptContents],
    ];
    let refused = 0;
    for (const [path, read] of readers) {
      const text = readFileSync(join(checkout, path), "utf8");
      for (let round = 0; round < 150; round++) {
        const at = random.integer(text.length);
        const changed = text.slice(0, at) + random.pick(pieces) + text.slice(at + random.integer(4));
        try {
          read(parseSource(path, changed));
        } catch (error) {
          expect(error).toBeInstanceOf(ConfigurationError);
          expect(String(error)).toContain(`"${path}", line `);
          refused += 1;
        }
      }
    }
    expect(refused).toBeGreaterThan(100);
  });
});

function sharedFiles(folder: string): string[] {
  return ["retail", "airline"].flatMap((domain) =>
    readdirSync(join(folder, domain)).map((name) => `${domain}/${name}`),
  );
}
