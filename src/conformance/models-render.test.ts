import { describe, expect, test } from "vitest";

import { rendererFamilyNames } from "../renderers/index.ts";
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
};

describe.skipIf(folder === null)("template goldens (skipped without ../shared)", () => {
  test("every native family has its goldens counted here", () => {
    expect(Object.keys(counts).toSorted()).toEqual(rendererFamilyNames.toSorted());
  });

  const files = Object.entries(counts).flatMap(([name, [render, prefix]]) => [
    [`render.${name}.jsonl`, render] as const,
    [`prefix.${name}.jsonl`, prefix] as const,
  ]);
  test.each(files)("%s: all %i records agree with transformers", async (file, passed) => {
    expect(await runRenderGoldens(folder ?? "", file)).toEqual({
      file, passed, failed: 0, unsupported: 0, failures: [], unsupportedReason: null,
    }); // prettier-ignore
  });
});
