import { mkdtemp, readFile, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { loadEmbeddedEngine } from "../engines/embedded/index.ts";
import { bookshopSource } from "../environments/bookshop/index.ts";
import { shippedCheckpoint } from "../learner/model/index.ts";
import { agendaUser } from "../users/index.ts";
import { planRollout, rollout, type RolloutEvent } from "./rollout.ts";

let cwd = "";
beforeEach(async () => {
  cwd = await mkdtemp(join(tmpdir(), "trainable-agents-"));
});
afterEach(() => rm(cwd, { recursive: true }));

it("does what the command does, with options by the flags' names, and prints nothing", async () => {
  const events: RolloutEvent[] = [];
  const options = { env: "bookshop", engine: "expert", groupSize: 2, tasks: [0, 1], out: "run", cwd } as const;
  const result = await rollout({ ...options, onEvent: (event) => events.push(event) });
  expect(result).toMatchObject({ folder: "run", status: "done", totals: { episodesFinished: 4, groupsFinished: 2 } });
  const types = new Set(events.map(({ type }) => type));
  expect([...types]).toEqual(["run-start", "progress", "run-end"]);
  expect(await rollout({ resume: "run", cwd })).toMatchObject({ status: "complete", totals: { episodesFinished: 4 } });
});

it("takes environment, engine, user and filters as values", async () => {
  const engine = await loadEmbeddedEngine(shippedCheckpoint("bookshop-1m"));
  try {
    const result = await rollout({
      env: bookshopSource(),
      engine,
      model: "bookshop-1m",
      user: agendaUser(),
      cwd,
      out: "run",
      tasks: "0",
      groupSize: 2,
      maxTurns: 2,
      filter: () => "none is kept",
    });
    expect(result.totals).toMatchObject({ episodesFinished: 2, groupsKept: 0, groupsDropped: { "none is kept": 1 } });
    const { configuration } = JSON.parse(await readFile(join(cwd, "run/run.json"), "utf8")) as {
      readonly configuration: Readonly<Record<string, unknown>>;
    };
    expect(configuration).toMatchObject({ env: "bookshop", engine: "own", user: "agenda", filter: "own" });
  } finally {
    await engine.close();
  }
});

it("refuses what does not fit before a folder is made, and stops at a signal", async () => {
  await expect(rollout({ groupSize: 0, cwd })).rejects.toThrow(
    "Cannot use --group-size: it is 0, expected a whole number",
  );
  await expect(planRollout({ env: "bookshpo", cwd })).rejects.toThrow('did you mean "bookshop"?');
  const unread = rollout({ engine: "expert", samplingExtra: { min_new_tokens: 2 }, tasks: "0", out: "none", cwd });
  await expect(unread).rejects.toThrow('Cannot use --sampling-extra with engine "expert"');
  await expect(stat(join(cwd, "none"))).rejects.toThrow("ENOENT");
  const drain = AbortSignal.abort();
  const result = rollout({ engine: "expert", tasks: "0-3", out: "run", cwd, drain });
  await expect(result).resolves.toMatchObject({ status: "interrupted", totals: { episodesStarted: 0 } });
});
