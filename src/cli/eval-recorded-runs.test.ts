// Upstream's recorded gpt-4o runs, as far as the goldens hold them (trials 0 and 1 of 4), written
// as a result file of upstream and scored by the command.

import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { sharedFolder } from "../../tests/conformance/shared-folder.ts";
import type { Comparison } from "../statistics/index.ts";
import { createFunctionSampler, createSglangFront } from "../testing/index.ts";
import { createReadableTokenizer } from "../tokenizers/index.ts";
import { passHatK } from "../graders/index.ts";
import { dumpJson, JsonFloat, type JsonObject, type JsonValue, parseJson } from "../python-semantics/json/index.ts";
import { createTestCli } from "./cli.test-helper.ts";

const data = sharedFolder("tau-bench");
const labels = fileURLToPath(new URL("../graders/labels/airline-gpt-4o.json", import.meta.url));

const object = (fields: Readonly<Record<string, JsonValue>>): JsonObject => new Map(Object.entries(fields));

function toResult(run: JsonObject): JsonObject {
  const messages = [object({ role: "user", content: run.get("first_user")! })];
  for (const [index, step] of (run.get("steps") as JsonObject[]).entries()) {
    const [name, written, content] = [step.get("name")!, step.get("arguments") as string, step.get("obs")!];
    if (name === "respond") {
      const said = parseJson(written) as JsonObject;
      messages.push(object({ content: said.get("content")!, role: "assistant" }), object({ role: "user", content }));
      continue;
    }
    const id = `call_${index}`;
    const call = object({ function: object({ arguments: written, name }), id, type: "function" });
    messages.push(
      object({ content: null, role: "assistant", tool_calls: [call] }),
      object({ role: "tool", tool_call_id: id, name, content }),
    );
  }
  return object({
    task_id: run.get("task_id")!,
    reward: run.get("recorded_reward")!,
    info: object({ reward_info: run.get("recorded_reward_info")! }),
    traj: messages,
    trial: run.get("trial")!,
  });
}

async function recordedResults(): Promise<JsonObject[]> {
  const lines = await readFile(join(data!, "goldens", "airline", "gpt-4o-airline.jsonl"), "utf8");
  return lines
    .trimEnd()
    .split("\n")
    .map((line) => toResult(parseJson(line) as JsonObject));
}

/** Rows of a table below its header: from the first cell to the others. */
function table(stdout: string, header: RegExp): Map<string, string[]> {
  const lines = stdout.split("\n");
  const start = lines.findIndex((line) => header.test(line));
  const rows = lines.slice(start + 1, lines.indexOf("", start)).map((line) => line.trim().split(/ {2,}/));
  return new Map(rows.map(([first = "", ...rest]) => [first, rest]));
}

describe.skipIf(data === null)(
  "eval --from a result file of upstream (skipped without ../shared/tau-bench)",
  async () => {
    const results = data === null ? [] : await recordedResults();
    const score = async (entries: readonly JsonObject[], ...flags: readonly string[]): Promise<string> => {
      const { run, folder } = await createTestCli();
      await writeFile(join(folder, "results.json"), dumpJson([...entries]));
      const airline = ["--env", "tau-bench/airline", "--data", data ?? ""];
      const { code, stdout, stderr } = await run("eval", "--from", "results.json", ...airline, ...flags);
      expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
      return stdout;
    };

    it("gives the pass^k that upstream's formula gives, and confirms every reward", async () => {
      const stdout = await score(results);
      const rates = table(stdout, /pass\^k/);
      expect([...rates.keys()]).toEqual(["1", "2"]);
      // Output of display_metrics of upstream's runner for these 100 runs.
      expect(rates.get("1")?.[0]).toBe("0.430");
      expect(rates.get("2")?.[0]).toBe("0.240");
      expect(stdout).toContain("100 of 100 runs, 0 of ");
      expect(stdout).toContain("100 confirmed, 0 not");
    });

    it("lists every run whose reward the environment does not give", async () => {
      const flipped = (result: JsonObject): JsonObject => {
        const reward = result.get("reward");
        return new Map(result).set("reward", reward instanceof JsonFloat && reward.value === 1 ? 0 : 1);
      };
      const forged = results.map((result, at) => (at === 3 || at === 60 ? flipped(result) : result));
      const stdout = await score(forged);
      expect(stdout).toContain("98 confirmed, 2 not");
      expect(stdout.match(/^ +task \d+, trial \d+: recorded \d, the environment gives \d$/gm)).toHaveLength(2);
    });

    it("counts a run that crashed as failed, by the infrastructure, and missing trials as upstream does", async () => {
      const crashed = object({
        task_id: 20,
        reward: 0,
        info: object({ error: "quota", traceback: "" }),
        traj: [],
        trial: 1,
      });
      const task = (run: JsonObject): number => Number(run.get("task_id"));
      const few = results.filter((run) => task(run) === 12 || (task(run) === 20 && run.get("trial") === 0));
      const stdout = await score([...few, crashed]);
      expect(stdout).toContain("failures by    infrastructure 1");
      expect(stdout).toMatch(/\n +2 +0\.500 /);
      expect(stdout).toContain("3 of 4 runs");
      expect(await score(few)).toContain("as in upstream  k=1 0.750, k=2 0.500");
    });

    it("attributes failures to the user with the published precision and recall", async () => {
      const stdout = await score(results, "--labels", labels);
      const agreement = table(stdout, /^labels +by hand/);
      expect(Object.fromEntries(agreement)).toEqual({
        agent: ["25", "29", "25", "0.862", "1.000"],
        user: ["12", "10", "10", "1.000", "0.833"],
        environment: ["3", "1", "1", "1.000", "0.333"],
      });
      expect(table(stdout, /^heldOut +by hand/).get("user")).toEqual(["3", "3", "3", "1.000", "1.000"]);
    });

    it("is compared by content with our own run, once it is scored", async () => {
      const { run, folder } = await createTestCli();
      const airline = ["--env", "tau-bench/airline", "--data", data ?? ""];
      const isFirst = (result: JsonObject): boolean => Number(result.get("task_id")) < 3;
      await writeFile(join(folder, "results.json"), dumpJson(results.filter(isFirst)));
      const scored = await run("eval", "--from", "results.json", ...airline, "--json");
      await writeFile(join(folder, "scores.json"), scored.stdout);
      await writeFile(join(folder, "lines.txt"), "Hi.\nThanks. ###STOP###\n");
      const tokenizer = createReadableTokenizer();
      const end = tokenizer.tokenId("<|im_end|>") ?? 0;
      const sampler = createFunctionSampler(() => ({ ids: [...tokenizer.encode("No."), end] }));
      const server = await createSglangFront({ sampler, tokenizer, endTokenIds: [end] }).listen();
      const policy = ["--user-lines", "lines.txt", "--url", server.url, "--model", "readable"];
      try {
        // The run has tasks 1 to 3, the file only 1 and 2.
        expect((await run("rollout", ...airline, "--tasks", "1-3", ...policy, "--out", "own", "--quiet")).code).toBe(0);
      } finally {
        await server.close();
      }
      const { stdout } = await run("compare", "scores.json", "own", "--json");
      const { pairs, rows } = JSON.parse(stdout) as Comparison;
      expect(pairs).toMatchObject([{ tasks: 2, byId: 0, unmatched: { otherOnly: 1 } }]);
      expect(rows.map(({ runs }) => runs.map((one) => one?.episodes.length)).toSorted((one, other) => (one[0] ?? 0) - (other[0] ?? 0))).toEqual([[2, 1], [2, 1]]); // prettier-ignore
    });

    it("publishes in docs/evaluating.md what it measures", async () => {
      const page = await readFile(new URL("../../docs/evaluating.md", import.meta.url), "utf8");
      const stdout = await score(results, "--labels", labels);
      for (const [header, set] of [
        [/^labels +by hand/, "looked at"],
        [/^heldOut +by hand/, "set aside"],
      ] as const) {
        for (const [label, cells] of table(stdout, header)) {
          expect(page).toMatch(
            new RegExp(`\\| ${label} +\\| ${set} +\\| +${cells.join(" +\\| +").replaceAll(".", "\\.")} +\\|`),
          );
        }
      }
    });
  },
);

describe("passHatK()", () => {
  it("equals upstream's formula on all 200 recorded gpt-4o airline runs", () => {
    // Successes of 4 trials, task by task, in upstream's historical_trajectories/gpt-4o-airline.json.
    const successes = [
      0, 1, 1, 0, 0, 1, 1, 1, 0, 0, 0, 1, 4, 2, 0, 2, 1, 1, 4, 0, 4, 3, 0, 0, 4,
      0, 2, 2, 0, 1, 2, 2, 0, 0, 3, 4, 4, 3, 4, 1, 3, 2, 4, 1, 2, 2, 2, 1, 4, 4,
    ]; // prettier-ignore
    const tallies = successes.map((count, task) => ({ taskId: String(task), trials: 4, successes: count }));
    const printed = [0.42, 0.2733333333333333, 0.22, 0.2];
    for (const [at, value] of printed.entries()) expect(passHatK(tallies, at + 1)).toBeCloseTo(value, 12);
  });
});
