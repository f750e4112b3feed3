import { mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { describe, expect, test } from "vitest";

import { rendererFamilyNames } from "../../src/renderers/index.ts";
import { runRenderGoldens } from "./models-render.ts";
import { sharedFolder } from "./shared-folder.ts";

const folder = sharedFolder("models", "goldens");

/** Records per family: rendered conversations, and prefix questions. */
const counts: Readonly<Record<string, readonly [render: number, prefix: number]>> = {
  "qwen2.5-instruct": [61, 43],
  "qwen3-instruct-2507": [61, 43],
  qwen3: [70, 86],
  "qwen3-rev2": [62, 86],
  "qwen3-miles-fixed": [69, 86],
  "qwen3-skyrl-acc-thinking": [62, 43],
  "qwen3-coder": [58, 43],
  "qwen3.5": [70, 41],
  "qwq-32b": [60, 43],
  "llama-3.1-instruct": [68, 41],
  "llama-3.2-instruct": [63, 41],
  "hermes-3-tool-use": [61, 22],
  "glm-4.5": [64, 43],
  "glm-4.6": [69, 86],
  "glm-4.7-flash": [70, 86],
  "kimi-k2": [62, 43],
  "kimi-k2-thinking": [62, 29],
  "deepseek-v3.1": [71, 58],
  "deepseek-v3.1-sglang-tools": [65, 43],
  "deepseek-v3-sglang-tools": [65, 43],
  "deepseek-r1": [61, 29],
  smollm3: [68, 43],
  "gpt-oss": [73, 31],
  "minimax-m3": [70, 31],
  "mistral-nemo-2407": [59, 29],
  "mistral-small-3.2": [61, 29],
  "seed-oss": [60, 43],
};

describe.skipIf(folder === null)("template goldens (skipped without ../shared/models/goldens)", () => {
  test("every file is counted here, two of each family", () => {
    expect(Object.keys(counts).filter((name) => !rendererFamilyNames.includes(name))).toEqual([]);
    const found = readdirSync(folder ?? "").filter((file) => /^(render|prefix)\./.test(file));
    expect(found.toSorted()).toEqual(files.map(([file]) => file).toSorted());
  });

  const files = Object.entries(counts).flatMap(([name, [render, prefix]]) => [
    [`render.${name}.jsonl`, render] as const,
    [`prefix.${name}.jsonl`, prefix] as const,
  ]);
  test.each(files)("%s: all %i records agree with transformers", async (file, passed) => {
    expect(await runRenderGoldens(folder ?? "", file, { data: null })).toEqual({
      file, passed, failed: 0, unsupported: 0, failures: [], unsupportedReason: null,
    }); // prettier-ignore
  });
});

test("templates come from the data that is named, and a missing one is said to be missing", async () => {
  const place = await mkdtemp(join(tmpdir(), "goldens-"));
  try {
    const record = { messages: [{ role: "user", content: "hi" }], expected: { text: "[hi]" } };
    writeFileSync(join(place, "render.made-up.jsonl"), `${JSON.stringify(record)}\n`);
    const missing = await runRenderGoldens(place, "render.made-up.jsonl", { data: null });
    expect(missing).toMatchObject({
      unsupported: 1,
      unsupportedReason: "no chat template of made-up in the data (made-up/chat_template.jinja)",
    });
    mkdirSync(join(place, "data", "made-up"), { recursive: true });
    writeFileSync(
      join(place, "data", "made-up", "chat_template.jinja"),
      "{% for m in messages %}[{{ m.content }}]{% endfor %}",
    );
    const found = await runRenderGoldens(place, "render.made-up.jsonl", { data: join(place, "data") });
    expect(found).toMatchObject({ passed: 1, failed: 0, unsupported: 0 });
    expect(await runRenderGoldens(place, "encode.made-up.jsonl", { data: null })).toBe(null);
  } finally {
    await rm(place, { recursive: true });
  }
});
