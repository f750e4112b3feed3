// Whose fault the failures of a τ-bench run are, on the page of a run that was not evaluated: the
// viewer reads the facts of the tasks as `eval` does.

import { cp, mkdtemp, readFile, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { evaluate } from "../src/api/evaluate.ts";
import { rollout } from "../src/api/rollout.ts";
import { view } from "../src/api/view.ts";
import { createFunctionSampler, createSglangFront } from "../src/testing/index.ts";
import { createReadableTokenizer } from "../src/tokenizers/index.ts";
import type { Row, Summary } from "../src/viewer/wire/index.ts";
import { sharedFolder } from "./conformance/shared-folder.ts";

const data = sharedFolder("tau-bench");

describe.skipIf(sharedFolder("tau-bench", "retail") === null)(
  "faults of a τ-bench run (skipped without ../shared)",
  () => {
    it("are those that eval finds, as long as the data is there", async () => {
      const cwd = await mkdtemp(join(tmpdir(), "trainable-agents-faults-"));
      const tokenizer = createReadableTokenizer();
      const end = tokenizer.tokenId("<|im_end|>") ?? 0;
      const sampler = createFunctionSampler(() => ({
        ids: [...tokenizer.encode("What is your name and zip code?"), end],
      }));
      const listener = await createSglangFront({ sampler, tokenizer, endTokenIds: [end] }).listen();
      // The user withholds what its instruction states.
      await writeFile(join(cwd, "lines.txt"), "I want to exchange something.\nI will not say. ###STOP###\n");
      try {
        const settings = { env: "tau-bench/retail", data: data!, tasks: "0-2", groupSize: 1, userLines: "lines.txt" };
        await rollout({
          ...settings,
          url: listener.url,
          model: "readable",
          quiet: true,
          out: "run",
          cwd,
          variables: {},
        });
      } finally {
        await listener.close();
      }
      await cp(join(cwd, "run"), join(cwd, "moved"), { recursive: true });
      const manifest = join(cwd, "moved", "run.json");
      await writeFile(manifest, (await readFile(manifest, "utf8")).replaceAll(data!, join(cwd, "nowhere")));
      const { scores } = await evaluate({ from: [join(cwd, "run")], cwd, variables: {} });
      const byEval = Object.fromEntries(scores.map(({ taskIndex, fault }) => [taskIndex, fault?.rule]));
      const viewer = await view({ sources: ["run", "moved"], cwd, listen: "127.0.0.1:0", variables: {} });
      try {
        const rulesOf = async (run: number): Promise<Record<string, string | undefined>> => {
          const ask = async (path: string): Promise<unknown> => (await fetch(`${viewer.url}api/${path}`)).json();
          while (((await ask(`summary?run=${run}`)) as Summary).faults?.isDone !== true);
          const { rows } = (await ask(`rows?run=${run}`)) as { rows: readonly Row[] };
          return Object.fromEntries(rows.map(({ taskIndex, fault }) => [String(taskIndex), fault?.rule] as const));
        };
        expect(await rulesOf(0)).toEqual(byEval);
        // Without the facts of the task, no one knows what the user withheld.
        expect(await rulesOf(1)).not.toEqual(byEval);
      } finally {
        await viewer.close();
      }
    }, 60_000);
  },
);
