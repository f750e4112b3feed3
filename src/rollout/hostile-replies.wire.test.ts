// Replies that no server should give, in the middle of episodes, each beside a healthy sibling: the
// episode fails at the engine, no row has a token of the reply, the siblings are complete, and the
// run can be read and exported. The codes of many more kinds are tested in
// `http/hostile-replies.wire.test.ts`.

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { createToolCalling } from "../agents/index.ts";
import type { Episode } from "../core/index.ts";
import { createSglangEngine } from "../engines/sglang/index.ts";
import { createVllmEngine } from "../engines/vllm/index.ts";
import { defineEnvironment } from "../environments/index.ts";
import { episodeSamples } from "./index.ts";
import { exportFormats, exportGroup } from "../export/index.ts";
import { createQwenRenderer } from "../renderers/index.ts";
import { createFileRunStore, openRunFolder } from "../store/index.ts";
import {
  createSglangFront,
  createVllmFront,
  garblings,
  type Sampler,
  type SamplerOutput,
  vllmGarblings,
  WireFaultError,
} from "../testing/index.ts";
import { createReadableTokenizer } from "../tokenizers/index.ts";
import { scriptedUsers } from "../users/index.ts";
import { runRollout, episodeRunner } from "./index.ts";

const tokenizer = createReadableTokenizer();
const endTokenIds = [tokenizer.tokenId("<|im_end|>") ?? 0];
const call = (name: string, args: object) =>
  `<tool_call>\n${JSON.stringify({ name, arguments: args })}\n</tool_call><|im_end|>`;
const script = [call("count", { by: 3 }), "Done.<|im_end|>", call("leave", {})];
const mark = "An answer of the hostile kind.";

/** Sampler output for a text, with one logprob for all tokens. */
const saying = (text: string, logprob = -0.5): SamplerOutput => {
  const ids = tokenizer.encode(text);
  return { ids, logprobs: Array.from(ids, () => logprob), finish: "end", cachedTokens: 0, weightVersion: null };
};
const hostile = saying(`${mark}<|im_end|>`);

type Kind = {
  readonly name: string;
  /** The code of the failure; `null` if the reply is accepted. */
  readonly code: string | null;
  /** Output of the server's sampler in the second turn of an episode; may throw. */
  readonly answer: () => SamplerOutput;
};
const thrower = (fault: WireFaultError["fault"]) => () => {
  throw new WireFaultError(fault);
};
const status = (code: number) =>
  thrower({ type: "answer", status: code, headers: { "content-type": "text/html" }, text: `<p>${mark}</p>` });

/** Kinds of replies that apply to both engines. */
const common: readonly Kind[] = [
  { name: "an id beyond the vocabulary", code: "bad-reply", answer: () => ({ ...hostile, ids: [5, 100_000_000] }) },
  { name: "probabilities for logprobs", code: "bad-reply", answer: () => saying(mark, 0.9) },
  { name: "logprobs that are NaN", code: "bad-reply", answer: () => saying(mark, Number.NaN) },
  {
    name: "an answer that ends early",
    code: "connection-lost",
    answer: thrower({ type: "drop", output: hostile, share: 0.7 }),
  },
  { name: "the page of a proxy", code: "server-error", answer: status(502) },
  { name: "a refusal", code: "bad-request", answer: status(400) },
  { name: "the least logprob", code: null, answer: () => saying(script[1]!, -9999) },
];

const kindsOf = (edits: typeof garblings): readonly Kind[] => [
  ...common,
  ...Object.entries(edits).map(([name, edit]): Kind => {
    const fault = { type: "edit", output: hostile, edit: (item: unknown) => edit(item as Parameters<typeof edit>[0]) };
    return { name, code: "bad-reply", answer: thrower(fault as WireFaultError["fault"]) };
  }),
];

const source = (tasks: number) => {
  const environment = defineEnvironment<{ count: number }>({
    name: "counter",
    guidelines: "Count when asked.",
    tools: {
      count: {
        description: "Counts up.",
        parameters: { type: "object", properties: { by: { type: "integer" } }, required: ["by"] },
        run: ({ by }, state) => ({ count: (state.count += Number(by)) }),
      },
      leave: { description: "Ends.", parameters: { type: "object" }, endsEpisode: true, run: () => "bye" },
    },
    tasks: { test: Array.from({ length: tasks }, () => ({ state: { count: 0 } })) },
    grade: ({ state }) => (state.count === 3 ? 1 : 0),
  });
  // The server sees only prompts, so they must name the task.
  return {
    ...environment,
    open: (task: Parameters<typeof environment.open>[0]) =>
      Object.assign(environment.open(task), { guidelines: `Task ${task.index}.` }),
  };
};

/**
 * Replies with the script; of the two episodes of a task, the first gets the hostile reply of the
 * task's kind in its second turn.
 */
function samplerOf(kinds: readonly Kind[]): Sampler {
  const met = new Map<number, string | null>();
  return {
    sample: async ({ promptIds, requestId, routingKey }, { onTokens }) => {
      const task = Number(/Task (\d+)\./.exec(tokenizer.decode(promptIds))?.[1]);
      const turn = Number(/_t(\d+)_r\d+$/.exec(requestId)?.[1]);
      if (!met.has(task)) met.set(task, routingKey);
      const output = turn === 1 && met.get(task) === routingKey ? kinds[task]!.answer() : saying(script[turn]!);
      onTokens(output.ids, output.logprobs);
      return output;
    },
  };
}

const folders: string[] = [];
afterEach(async () => {
  for (const folder of folders.splice(0)) await rm(folder, { recursive: true, force: true });
});

const engines = {
  SGLang: { kinds: kindsOf(garblings), createFront: createSglangFront, createEngine: createSglangEngine },
  vLLM: { kinds: kindsOf(vllmGarblings), createFront: createVllmFront, createEngine: createVllmEngine },
} as const;

describe.each(Object.keys(engines) as (keyof typeof engines)[])("a rollout with %s", (name) => {
  it.each([false, true])("fails the episodes of hostile replies, and no others; streamed: %s", async (stream) => {
    const { kinds, createFront, createEngine } = engines[name];
    const listener = await createFront({ sampler: samplerOf(kinds), endTokenIds }).listen();
    const { vocabularySize } = tokenizer;
    const engine = createEngine({ url: listener.url, stream, vocabularySize });
    const environment = source(kinds.length);
    const renderer = createQwenRenderer({ tokenizer, family: "qwen2.5-instruct" });
    const user = scriptedUsers(["Count to 3.", "Thanks."]);
    const parts = { environment, engine, renderer, strategy: createToolCalling(), user };
    const retry = { maxAttempts: 2, maxElapsedMs: 60_000, baseDelayMs: 1, maxDelayMs: 1 };
    const place = await mkdtemp(join(tmpdir(), "hostile-"));
    folders.push(place);
    const store = createFileRunStore(join(place, "run"), { fsync: "never" });
    await store.begin(new Map());
    const totals = await runRollout(
      { taskset: environment.taskset("test"), taskIndexes: kinds.map((_, index) => index), groupSize: 2, seed: 1 },
      {
        runEpisode: episodeRunner(parts, { retry }),
        store,
        exportSamples: ({ result }) => result.samples.map(({ tokens }) => JSON.stringify(tokenizer.decode(tokens))),
      },
    );
    await store.close(new Map());
    await engine.close();
    await listener.close();

    const run = openRunFolder(join(place, "run"));
    const groups = new Map<number, Episode[]>();
    for await (const episode of run.episodes()) {
      groups.set(episode.task.index, [...(groups.get(episode.task.index) ?? []), episode]);
    }
    const outcomeOf = ({ failure, stopReason, reward }: Episode): string =>
      failure === null ? `${stopReason} ${reward}` : `${failure.boundary}/${failure.code}`;
    const met = kinds.map((kind, index) => [kind.name, ...groups.get(index)!.map(outcomeOf).toSorted()]);
    const healthy = "tool_ended 1";
    expect(met).toEqual(
      kinds.map((kind) => [kind.name, kind.code === null ? healthy : `engine/${kind.code}`, healthy]),
    );
    // The only accepted reply of this kind.
    expect(totals.unlikelyTokens).toBe(tokenizer.encode(script[1]!).length);

    const rows: string[] = [];
    for await (const row of run.sampleLines()) rows.push(row);
    expect(rows).toHaveLength(kinds.length + 1);
    const episodes = [...groups.values()].flat();
    const sampled = episodes.flatMap(({ trajectory }) => trajectory.turns.map((turn) => turn.sampledTokens));
    for (const text of [...rows, ...sampled.map((ids) => tokenizer.decode(ids))]) expect(text).not.toContain(mark);
    const numbered = episodes.map((episode, index) => ({ episode, result: episodeSamples(episode), index }));
    const group = { run: null, groupIndex: 0, decision: "kept", reason: null, episodes: numbered } as const;
    const context = { decode: (ids: Uint32Array) => tokenizer.decode(ids), toolsOf: () => null, where: () => true };
    for (const format of ["slime", "verl", "trl"] as const) {
      expect(exportGroup(group, exportFormats[format], context).rows).toHaveLength(kinds.length + 1);
    }
  });
});
