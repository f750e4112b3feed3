import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { describe, expect, test } from "vitest";

import { runTemplateGoldens } from "./models-template.ts";
import { sharedFolder } from "./shared-folder.ts";

const folder = sharedFolder("models", "goldens");
const files = folder === null ? [] : readdirSync(folder).filter((file) => /^(render|prefix)\./.test(file));

describe.skipIf(folder === null)(
  "template goldens through the fallback (skipped without ../shared/models/goldens)",
  () => {
    test("there are two files for each of 27 templates", () => {
      expect(files.length).toBe(54);
    });

    test.each(files)("%s: all records agree with transformers", async (file) => {
      const records = readFileSync(join(folder ?? "", file), "utf8")
        .trimEnd()
        .split("\n").length;
      expect(await runTemplateGoldens(folder ?? "", file, { data: null })).toEqual({
      file: `${file} (its own template)`, passed: records, failed: 0, unsupported: 0, failures: [], unsupportedReason: null,
    }); // prettier-ignore
    });
  },
);

test("templates come from the data that is named, and a missing one is said to be missing", async () => {
  const place = await mkdtemp(join(tmpdir(), "goldens-"));
  try {
    const record = { messages: [{ role: "user", content: "hi" }], expected: { text: "[hi]" } };
    writeFileSync(join(place, "render.made-up.jsonl"), `${JSON.stringify(record)}\n`);
    const missing = await runTemplateGoldens(place, "render.made-up.jsonl", { data: null });
    expect(missing).toMatchObject({
      unsupported: 1,
      unsupportedReason: "no chat template of made-up in the data (made-up/chat_template.jinja)",
    });
    mkdirSync(join(place, "data", "made-up"), { recursive: true });
    writeFileSync(
      join(place, "data", "made-up", "chat_template.jinja"),
      "{% for m in messages %}[{{ m.content }}]{% endfor %}",
    );
    const found = await runTemplateGoldens(place, "render.made-up.jsonl", { data: join(place, "data") });
    expect(found).toMatchObject({ passed: 1, failed: 0, unsupported: 0 });
    expect(await runTemplateGoldens(place, "encode.made-up.jsonl", { data: null })).toBe(null);
  } finally {
    await rm(place, { recursive: true });
  }
});
