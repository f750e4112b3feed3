import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";

import type { Engine, Episode } from "../../core/index.ts";
import { createSglangEngine } from "../../engines/sglang/index.ts";
import { createHandlerClient } from "../../http/handler-client.test-helper.ts";
import { parseJson } from "../../python-semantics/json/parse-json.ts";
import { createRoutedExpertsFile, episodeFromJson, episodeLine, openRoutedExperts } from "../../store/index.ts";
import { createFunctionSampler, createRouterFront, createSglangFront } from "../../testing/index.ts";
import { expertsOf } from "../../trajectories/index.ts";
import { count, instantClock, leave, type Reply, task, tokenizer, world } from "./episode-world.test-helper.ts";
import { episodeSamples, type EpisodeOptions, keepExperts, runEpisode } from "../index.ts";

const [layers, topk] = [3, 2];

/** Experts of a model whose choice depends on everything before, so that a misplaced row is noticed. */
function chosen(sequence: ArrayLike<number>, place: number, most = 250): number[] {
  let state = place;
  for (let at = 0; at <= place; at++) state = (Math.imul(state, 31) + sequence[at]!) >>> 0;
  return Array.from({ length: layers * topk }, (_, at) => (state + at * 7) % most);
}

function bytesOf(sequence: ArrayLike<number>, from: number, most?: number): Uint8Array {
  const numbers: number[] = [];
  for (let place = from; place < sequence.length - 1; place++) numbers.push(...chosen(sequence, place, most));
  return new Uint8Array(Int32Array.from(numbers).buffer);
}

/** An engine that reports experts like a server, changed by `spoil`. */
function routing(
  inner: Engine,
  {
    most,
    spoil = (bytes) => bytes,
  }: { most?: number; spoil?: (bytes: Uint8Array, from: number) => Uint8Array | null } = {},
): Engine & { readonly from: number[] } {
  const from: number[] = [];
  return {
    name: inner.name,
    from,
    close: () => inner.close(),
    sample: async (request, options) => {
      const result = await inner.sample(request, options);
      const start = request.routedExpertsFrom ?? -1;
      from.push(start);
      const sequence = [...request.prompt.view(0, result.usage.promptTokens), ...result.sampledTokens];
      return { ...result, routedExpertBytes: spoil(bytesOf(sequence, start, most), start) };
    },
  };
}

const folders: string[] = [];
afterEach(async () => {
  for (const folder of folders.splice(0)) await rm(folder, { recursive: true });
});

async function placeOfBytes() {
  const folder = await mkdtemp(join(tmpdir(), "experts-"));
  folders.push(folder);
  const file = createRoutedExpertsFile(folder);
  return { folder, file, keep: keepExperts({ layers, topk, write: (bytes) => file.write(bytes) }) };
}

type Case = {
  readonly replies: readonly Reply[];
  readonly world?: Parameters<typeof world>[2];
  readonly options?: EpisodeOptions;
  readonly most?: number;
};

async function play(one: Case, spoil?: (bytes: Uint8Array, from: number) => Uint8Array | null) {
  const { folder, file, keep } = await placeOfBytes();
  const { parts, model } = world(one.replies, ["Please count.", "To 3.", "###STOP###"], one.world);
  const given = { ...(one.most === undefined ? {} : { most: one.most }), ...(spoil === undefined ? {} : { spoil }) };
  const engine = routing(model, given);
  const options = { clock: instantClock(), routedExperts: keep, ...one.options };
  const episode = await runEpisode(task, { ...parts, engine }, options);
  await file.close();
  return { episode, folder, from: engine.from };
}

/** The experts of all samples, as a trainer reads them, must be those of their tokens. */
function check(episode: Episode, folder: string, most?: number): number {
  const reader = openRoutedExperts(folder);
  const { samples } = episodeSamples(episode);
  for (const sample of samples) {
    const found = expertsOf(sample, episode.trajectory)!.flatMap((part) => {
      const bytes = reader.read(part);
      return Array.from({ length: bytes.length / part.width }, (_, at) =>
        part.width === 1 ? bytes[at]! : bytes[at * 2]! | (bytes[at * 2 + 1]! << 8),
      );
    });
    const expected = Array.from({ length: sample.tokens.length - 1 }, (_, at) =>
      chosen(sample.tokens, at, most),
    ).flat();
    expect(found).toEqual(expected);
  }
  reader.close();
  return samples.length;
}

const thinking = `<think>\nHm.\n</think>\n\n`;
const cases: readonly (readonly [string, Case, number])[] = [
  ["one sequence", { replies: ["How far?", count(3), leave] }, 1],
  [
    "branches, which share a beginning",
    {
      replies: [`${thinking}How far?`, `${thinking}${count(3)}`, `${thinking}${leave}`],
      world: { family: "qwen3", historyPolicy: "branch" },
    },
    2,
  ],
  [
    "a turn that goes on from its partial tokens, and one that was aborted before it ran",
    { replies: [count(3), { text: "", finish: "abort" }, { text: "It", finish: "abort" }, " is 3.", leave] },
    1,
  ],
  [
    "a turn that is sampled again",
    {
      replies: [count(3), { text: "It", finish: "abort" }, "It is 3.", leave],
      options: { engineAbort: { onAbort: "restart" } },
    },
    1,
  ],
  ["numbers that need two bytes", { replies: ["How far?", leave], most: 60_000 }, 1],
];

describe("routed experts", () => {
  it.each(cases)("are joined over turns: %s", async (_, one, samples) => {
    const { episode, folder, from } = await play(one);
    expect(episode.failure).toBeNull();
    expect(check(episode, folder, one.most)).toBe(samples);
    // Experts that are already known are not requested again.
    expect(from[0]).toBe(0);
    if (samples === 1) expect(from.slice(1).every((start) => start > 0)).toBe(true);
    const { width } = episode.trajectory.turns[0]!.routedExperts!;
    expect(width).toBe(one.most === undefined ? 1 : 2);
  });

  it("are bytes in a file of their own; records name the place, and a resumed run names the same", async () => {
    const one: Case = { replies: ["How far?", count(3), leave] };
    const { episode: whole, folder } = await play(one);
    const line = episodeLine(whole);
    const back = episodeFromJson(parseJson(line), "here");
    expect(back.trajectory).toEqual(whole.trajectory);
    const size = (await readFile(join(folder, "routed-experts.bin"))).length;
    const [sample] = episodeSamples(whole).samples;
    expect(size).toBe((sample!.tokens.length - 1) * layers * topk);
    // The process died after the first turn; bytes that it wrote without naming them stay in the
    // file.
    const { parts, model } = world(one.replies.slice(1), ["Please count.", "To 3.", "###STOP###"]);
    const file = createRoutedExpertsFile(folder);
    const resumeFrom = back.events.slice(
      0,
      back.events.findIndex(({ type }) => type === "tool-result"),
    );
    const again = await runEpisode(
      task,
      { ...parts, engine: routing({ ...model, sample: (request, options) => model.sample(request, options) }) },
      {
        clock: instantClock(),
        resumeFrom: resumeFrom.slice(0, resumeFrom.findIndex(({ type }) => type === "decision") + 1),
        routedExperts: keepExperts({ layers, topk, write: (bytes) => file.write(bytes) }),
      },
    );
    await file.close();
    expect(again.failure).toBeNull();
    expect(again.trajectory.turns[0]).toEqual(whole.trajectory.turns[0]);
    expect(again.trajectory.turns[1]!.routedExperts!.offset).toBe(size);
    expect(check(again, folder)).toBe(1);
  });

  it.each([
    [
      "are missing, as behind a router that drops the field",
      () => null,
      "the reply has none: a router may leave the field out",
    ],
    ["are of another shape", (bytes: Uint8Array) => bytes.subarray(4), "rows of 3 layers by 2 have"],
    ["are of another length", () => new Uint8Array(0), "the reply has 0 bytes"],
    [
      "are not experts",
      (bytes: Uint8Array) => new Uint8Array(bytes.length).fill(0xff),
      "the number -1 is that of no expert",
    ],
  ] as const)("fail the episode for good when they %s", async (_, spoil, message) => {
    const { episode, folder } = await play({ replies: ["How far?", leave] }, spoil);
    expect(episode.failure).toMatchObject({ boundary: "engine", code: "bad-reply", retryable: false });
    expect(episode.failure?.message).toContain(message);
    expect(episodeSamples(episode).samples).toEqual([]);
    await expect(readFile(join(folder, "routed-experts.bin"))).rejects.toThrow("ENOENT");
  });

  it("of a server that sends all of them are cut to those that are new", async () => {
    const { episode, folder } = await play({ replies: ["How far?", count(3), leave] }, undefined);
    expect(check(episode, folder)).toBe(1);
    const whole = await placeOfBytes();
    const { parts, model } = world(["How far?", count(3), leave], ["Please count.", "To 3.", "###STOP###"]);
    const engine: Engine = {
      ...routing(model),
      sample: async (request, options) => {
        const result = await model.sample(request, options);
        const sequence = [...request.prompt.view(0, result.usage.promptTokens), ...result.sampledTokens];
        return { ...result, routedExpertBytes: bytesOf(sequence, 0) };
      },
    };
    const options = { clock: instantClock(), routedExperts: whole.keep };
    const other = await runEpisode(task, { ...parts, engine }, options);
    await whole.file.close();
    expect(check(other, whole.folder)).toBe(1);
  });

  it("a file that is not whole is named", async () => {
    const { episode, folder } = await play({ replies: ["How far?", leave] });
    const part = episode.trajectory.turns.at(-1)!.routedExperts!;
    const reader = openRoutedExperts(folder);
    expect(() => reader.read({ ...part, offset: part.offset + 1 })).toThrow("are there; the file is incomplete");
    expect(() => openRoutedExperts(join(folder, "none")).read(part)).toThrow("Cannot read");
    reader.close();
  });

  it.each([false, true])("come over SGLang's wire, streamed: %s", async (stream) => {
    const replies = ["How far?", count(3), leave].map((text) => [...tokenizer.encode(`${text}<|im_end|>`)]);
    let turn = 0;
    const sampler = createFunctionSampler(() => ({ ids: replies[turn++]! }));
    const front = createSglangFront({ sampler, routedExperts: (sequence, at) => chosen(sequence, at) });
    const engine = createSglangEngine({
      http: createHandlerClient((asked) => front.handle(asked), { boundary: "engine" }),
      stream,
    });
    const { folder, file, keep } = await placeOfBytes();
    const { parts } = world([], ["Please count.", "To 3.", "###STOP###"]);
    const episode = await runEpisode(task, { ...parts, engine }, { clock: instantClock(), routedExperts: keep });
    await file.close();
    await engine.close();
    expect(episode.failure).toBeNull();
    expect(check(episode, folder)).toBe(1);
  });

  it("are refused behind a router that drops the request for them", async () => {
    const sampler = createFunctionSampler(() => ({ ids: [...tokenizer.encode(`${leave}<|im_end|>`)] }));
    const front = createSglangFront({ sampler, routedExperts: (sequence, at) => chosen(sequence, at) });
    const handle = (asked: Request): Promise<Response> => front.handle(asked);
    const router = createRouterFront({ workers: [{ url: "http://worker:1", handle }] });
    const http = createHandlerClient((asked) => router.handle(asked), { boundary: "engine" });
    const engine = createSglangEngine({ http });
    const { keep } = await placeOfBytes();
    const { parts } = world([], ["Please count."]);
    const episode = await runEpisode(task, { ...parts, engine }, { clock: instantClock(), routedExperts: keep });
    expect(episode.failure?.message).toContain("a router may leave the field out");
    await engine.close();
  });

  it("are refused over SGLang's wire when the model has none, as in the recorded reply of a dense one", async () => {
    const sampler = createFunctionSampler(() => ({ ids: [...tokenizer.encode(`${leave}<|im_end|>`)] }));
    const front = createSglangFront({ sampler });
    const engine = createSglangEngine({
      http: createHandlerClient((asked) => front.handle(asked), { boundary: "engine" }),
    });
    const { keep } = await placeOfBytes();
    const { parts } = world([], ["Please count."]);
    const episode = await runEpisode(task, { ...parts, engine }, { clock: instantClock(), routedExperts: keep });
    expect(episode.failure).toMatchObject({ boundary: "engine", code: "bad-reply", retryable: false });
    await engine.close();
  });
});
