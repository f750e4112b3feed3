// Turns that the server aborts at random places, with every kind of engine: the recorded and
// trained tokens are those that the server sampled, token by token, under every abort policy.

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Engine, EngineControl, Episode, SampleRequest } from "../../core/index.ts";
import { createScriptedEngine } from "../../engines/scripted/index.ts";
import { createSglangEngine } from "../../engines/sglang/index.ts";
import { createVllmEngine } from "../../engines/vllm/index.ts";
import { createHandlerClient } from "../../http/handler-client.test-helper.ts";
import { createManualClock } from "../../lib/clock.test-helper.ts";
import { createRandom, deriveSeed } from "../../lib/random.ts";
import { createFunctionSampler, createSglangFront, createVllmFront, type Sampler } from "../../testing/index.ts";
import { conservationViolations } from "../../trajectories/index.ts";
import { count, instantClock, task, tokenizer, world } from "./episode-world.test-helper.ts";
import { episodeSamples, type EpisodeOptions, runEpisode } from "../index.ts";

/** One answered engine call, from the server's side. */
type Call = {
  readonly turn: number;
  readonly prompt: readonly number[];
  readonly ids: readonly number[];
  readonly logprobs: readonly number[];
  readonly dispatch: string;
  readonly reply: string;
  readonly aborted: boolean;
};

type Asked = { readonly promptIds: ArrayLike<number>; readonly requestId: string };

/** A model with planned text for each turn, whose server aborts it at places drawn from a seed. */
class Server {
  readonly calls: Call[] = [];
  version = "w0";
  readonly #plan: readonly (readonly number[])[];
  readonly #random: ReturnType<typeof createRandom>;
  readonly #options: ServerOptions;
  #said = new Map<number, number>();
  #sampled = 0;

  constructor(texts: readonly string[], options: ServerOptions) {
    this.#plan = texts.map((text) => [...tokenizer.encode(`${text}<|im_end|>`)]);
    this.#random = createRandom(options.seed);
    this.#options = options;
  }

  answer({ promptIds, requestId }: Asked): Call {
    const turn = Number(/_t(\d+)_r/.exec(requestId)?.[1]);
    const before = this.#said.get(turn) ?? 0;
    const left = this.#plan[turn]!.slice(before);
    const aborted = this.#random.next() < this.#options.abortRate;
    const ids = aborted ? left.slice(0, this.#random.integer(left.length)) : left;
    const dispatch = this.version;
    this.version = `w${this.calls.length + 1}`;
    // A server that samples a turn again starts from its beginning.
    const isForgotten = aborted && this.#options.forgets && ids.length > 0;
    this.#said.set(turn, isForgotten ? 0 : before + ids.length);
    // Logprobs that are exact in 32 bits and unique within an episode, so that a shift is noticed.
    const logprobs = ids.map(() => -++this.#sampled / 1024);
    const call = { turn, prompt: Array.from(promptIds), ids, logprobs, dispatch, reply: this.version, aborted };
    this.calls.push(call);
    return call;
  }
}

type ServerOptions = { readonly seed: number; readonly abortRate: number; readonly forgets: boolean };

function samplerOf(server: Server): Sampler {
  return createFunctionSampler((asked) => {
    const { ids, logprobs, reply, aborted } = server.answer(asked);
    return { ids, logprobs, weightVersion: reply, finish: aborted ? "abort" : "end" };
  });
}

const engines: Readonly<Record<string, (server: Server) => Engine>> = {
  scripted: (server) =>
    createScriptedEngine({
      weightVersion: server.version,
      script: ({ prompt, requestId }: SampleRequest) => {
        const call = server.answer({ promptIds: prompt.view(), requestId });
        const type = call.aborted ? "abort" : "reply";
        return { type, tokens: call.ids, logprobs: call.logprobs, weightVersion: call.reply };
      },
    }),
  sglang: (server) => {
    const front = createSglangFront({ sampler: samplerOf(server), weightVersion: server.version });
    return createSglangEngine({ http: createHandlerClient((asked) => front.handle(asked), { boundary: "engine" }) });
  },
  vllm: (server) => {
    const front = createVllmFront({ sampler: samplerOf(server), weightVersion: server.version });
    const handle = async (asked: Request): Promise<Response> => {
      const answer = await front.handle(asked);
      if (asked.method === "POST") engine.setWeightVersion(server.version);
      return answer;
    };
    const engine = createVllmEngine({ http: createHandlerClient(handle, { boundary: "engine" }) });
    engine.setWeightVersion(server.version);
    return engine;
  },
};

const texts = ["How far may I count for you today?", count(3), "It is 3 now, and that is all there is."];
const lines = ["Please count.", "To 3, as I said.", "Bye ###STOP###"];

async function runScript(
  make: (server: Server) => Engine,
  served: ServerOptions,
  options: EpisodeOptions = {},
): Promise<{ readonly episode: Episode; readonly server: Server }> {
  const server = new Server(texts, served);
  const { parts } = world([], lines);
  const engine = make(server);
  if ("weightVersion" in engine) await (engine as Engine & EngineControl).weightVersion();
  const episode = await runEpisode(
    task,
    { ...parts, engine },
    { clock: instantClock(), episodeId: "ep", sampling: { maxNewTokens: 400 }, ...options },
  );
  return { episode, server };
}

const words = (episode: Episode): readonly string[] =>
  episode.messages.map(({ role, content }) => `${role}: ${content}`);
const runs = process.env["FULL"] === "1" ? 2000 : 10;
const anySeed = fc.integer({ min: 0, max: 2 ** 31 });

/**
 * These servers name the weights of every token; for the others only the versions at dispatch and
 * at reply are known.
 */
const exact: readonly string[] = ["sglang", "vllm"];

describe.each(Object.entries(engines))("turns that the server aborts at random places, engine %s", (name, make) => {
  it('"continue": each turn has the tokens, logprobs and versions of all its calls, and nobody else notices', async () => {
    const undisturbed = await runScript(make, { seed: 0, abortRate: 0, forgets: false });
    const expected = words(undisturbed.episode);
    expect(undisturbed.episode).toMatchObject({ outcome: "completed", reward: 1 });
    await fc.assert(
      fc.asyncProperty(anySeed, fc.constantFrom(0.3, 0.6, 0.8), async (seed, abortRate) => {
        const engineAbort = { maxAborts: 1000 };
        const { episode, server } = await runScript(make, { seed, abortRate, forgets: false }, { engineAbort });
        expect(words(episode)).toEqual(expected);
        expect(episode.trajectory.turns).toHaveLength(3);
        for (const turn of episode.trajectory.turns) {
          const calls = server.calls.filter((call) => call.turn === turn.index);
          expect([...turn.sampledTokens]).toEqual(calls.flatMap(({ ids }) => ids));
          expect([...(turn.logprobs ?? [])]).toEqual(calls.flatMap(({ logprobs }) => logprobs));
          expect(turn.weightSpans).toEqual(
            calls
              .filter(({ ids }) => ids.length > 0)
              .map(({ ids, dispatch, reply }) => ({
                tokenCount: ids.length,
                dispatch: exact.includes(name) ? reply : dispatch,
                reply,
              })),
          );
          expect(turn.finish.reason).toBe("stop");
          // Every call continued from the tokens of the calls before it.
          calls.forEach((call, index) => {
            const earlier = calls.slice(0, index).flatMap(({ ids }) => ids);
            expect(call.prompt).toEqual([...calls[0]!.prompt, ...earlier]);
          });
          const event = episode.events.find((one) => one.type === "turn" && one.turn.index === turn.index);
          expect(event?.type === "turn" && event.attempts.length).toBe(calls.length - 1);
        }
        const { samples, dropped } = episodeSamples(episode);
        expect(conservationViolations(episode.trajectory, { samples, dropped })).toEqual([]);
        expect(dropped).toEqual([]);
        expect(samples).toHaveLength(1);
        const [sample] = samples;
        expect([...sample!.tokens].filter((_, at) => sample!.lossMask[at] === 1)).toEqual(
          server.calls.flatMap(({ ids }) => ids),
        );
        expect([...sample!.logprobs!].filter((_, at) => sample!.lossMask[at] === 1)).toEqual(
          server.calls.flatMap(({ logprobs }) => logprobs),
        );
      }),
      { numRuns: runs },
    );
  });

  it('"restart": the aborted tokens are dropped with their reason, the others trained in one sample', async () => {
    await fc.assert(
      fc.asyncProperty(anySeed, fc.constantFrom(0.3, 0.6), async (seed, abortRate) => {
        const engineAbort = { onAbort: "restart", maxAborts: 1000 } as const;
        const { episode, server } = await runScript(make, { seed, abortRate, forgets: true }, { engineAbort });
        expect(episode).toMatchObject({ outcome: "completed", reward: 1 });
        const { samples, dropped } = episodeSamples(episode);
        expect(conservationViolations(episode.trajectory, { samples, dropped })).toEqual([]);
        const discarded = server.calls.filter(({ aborted, ids }) => aborted && ids.length > 0);
        expect(dropped.map(({ count: tokens, reason }) => [tokens, reason])).toEqual(
          discarded.map(({ ids }) => [ids.length, "discarded-turn"]),
        );
        const kept = server.calls.filter(({ aborted }) => !aborted);
        expect(samples).toHaveLength(1);
        const [sample] = samples;
        expect([...sample!.tokens].filter((_, at) => sample!.sampledMask[at] === 1)).toEqual(
          kept.flatMap(({ ids }) => ids),
        );
        expect([...sample!.logprobs!].filter((_, at) => sample!.sampledMask[at] === 1)).toEqual(
          kept.flatMap(({ logprobs }) => logprobs),
        );
        // Every attempt started where the turn started.
        for (const call of server.calls) {
          expect(call.prompt).toEqual(server.calls.find(({ turn }) => turn === call.turn)?.prompt);
        }
      }),
      { numRuns: runs },
    );
  });

  it('"end", and too many aborts, end the episode as aborted with every token accounted for', async () => {
    await fc.assert(
      fc.asyncProperty(anySeed, fc.constantFrom(0, 1, 2), async (seed, maxAborts) => {
        const onAbort = maxAborts === 0 ? "end" : seed % 2 === 0 ? "continue" : "restart";
        const engineAbort = { onAbort, maxAborts } as const;
        const served = { seed, abortRate: 0.7, forgets: onAbort === "restart" };
        const { episode, server } = await runScript(make, served, { engineAbort });
        const sampled = episode.trajectory.turns.reduce((sum, turn) => sum + turn.sampledTokens.length, 0);
        expect(sampled).toBe(server.calls.reduce((sum, { ids }) => sum + ids.length, 0));
        const { samples, dropped } = episodeSamples(episode);
        expect(conservationViolations(episode.trajectory, { samples, dropped })).toEqual([]);
        const abortsInARow = Math.max(
          ...[0, 1, 2].map((turn) => server.calls.filter((call) => call.turn === turn && call.aborted).length),
        );
        expect(episode.stopReason).toBe(abortsInARow > maxAborts ? "engine_abort" : "user_hung_up");
        if (abortsInARow > maxAborts) expect([episode.outcome, samples]).toEqual(["aborted", []]);
      }),
      { numRuns: runs },
    );
  });
});

describe("a turn that the server aborts", () => {
  const scripted = (script: Parameters<typeof createScriptedEngine>[0]["script"]) =>
    createScriptedEngine({ script, tokenizer, weightVersion: "w0" });
  const playWith = (engine: Engine, options: EpisodeOptions = {}): Promise<Episode> => {
    const { parts } = world([], ["Count.", "Bye ###STOP###"]);
    return runEpisode(task, { ...parts, engine }, { clock: instantClock(), episodeId: "ep", ...options });
  };
  const end = tokenizer.tokenId("<|im_end|>")!;

  it("asks for no more tokens than are left, and is cut off when none is", async () => {
    const engine = scripted([
      { type: "abort", tokens: "Let me" },
      { type: "abort", tokens: " think" },
      { type: "reply", tokens: ` of it.<|im_end|>` },
    ]);
    const episode = await playWith(engine, { sampling: { maxNewTokens: 40 } });
    const [first, second] = [tokenizer.encode("Let me").length, tokenizer.encode(" think").length];
    expect(engine.requests.map(({ sampling }) => sampling.maxNewTokens)).toEqual([40, 40 - first, 40 - first - second]);
    expect(episode.outcome).toBe("completed");
    engine.verifyDone();

    const full = scripted([{ type: "abort", tokens: "Let me" }]);
    const cut = await playWith(full, { sampling: { maxNewTokens: first } });
    expect(cut.trajectory.turns[0]?.finish.reason).toBe("length");
  });

  it("is whole when its last token is an end token, whatever the server says", async () => {
    const episode = await playWith(scripted([{ type: "abort", tokens: "Done.<|im_end|>" }]));
    expect(episode).toMatchObject({ outcome: "completed", stopReason: "user_hung_up" });
    expect(episode.trajectory.turns[0]?.finish).toMatchObject({ reason: "stop", matched: end });
  });

  it("gives every call of a turn an id and, where turns are seeded, a seed of its own", async () => {
    const engine = scripted([
      { type: "abort", tokens: "Let" },
      { type: "failure", code: "overloaded" },
      { type: "reply", tokens: " go.<|im_end|>" },
    ]);
    await playWith(engine, { seedTurns: true });
    expect(engine.requests.map(({ requestId }) => requestId)).toEqual(
      [1, 2, 3].map((call) => `f69f122302f69e0b_t0000_r000${call}`),
    );
    const seeds = engine.requests.map(({ sampling }) => sampling.seed);
    expect(seeds[0]).toBe(deriveSeed(0, "turn", 0));
    expect(seeds[1]).toBe(seeds[2]);
    expect(seeds[1]).not.toBe(seeds[0]);
  });

  it("draws no part as it drew another where a seed is stated", async () => {
    const engine = scripted([
      { type: "abort", tokens: "Let" },
      { type: "reply", tokens: " go.<|im_end|>" },
    ]);
    await playWith(engine, { sampling: { seed: 5 } });
    const [first, second] = engine.requests.map(({ sampling }) => sampling.seed);
    expect(first).toBe(5);
    expect(second).not.toBe(5);
  });

  it("that cannot go on fails with its tokens in the record, and dropped", async () => {
    const engine = scripted([
      { type: "abort", tokens: "Let me" },
      { type: "failure", code: "bad-request" },
    ]);
    const episode = await playWith(engine);
    expect(episode).toMatchObject({ outcome: "failed", failure: { boundary: "engine", code: "bad-request" } });
    expect(tokenizer.decode(episode.trajectory.turns[0]!.sampledTokens)).toBe("Let me");
    expect(episodeSamples(episode).dropped).toEqual([{ turn: 0, count: 2, reason: "episode-failed" }]);
  });

  it("ends as cut off when its tokens have filled the context", async () => {
    const engine = scripted([
      { type: "abort", tokens: "Let me" },
      { type: "failure", code: "context-length" },
      { type: "failure", code: "context-length" },
    ]);
    const episode = await playWith(engine);
    expect(episode).toMatchObject({ outcome: "truncated", stopReason: "context_length" });
    expect(episode.problems.map(({ code }) => code)).toEqual(["cut-off"]);
  });

  it("waits while the server is paused, asks no faster than it must, and gives up in time", async () => {
    const clock = instantClock();
    let paused = 20;
    let questions = 0;
    const inner = scripted([
      { type: "abort", tokens: "Let" },
      { type: "reply", tokens: " go.<|im_end|>" },
    ]);
    const engine: Engine = {
      name: "paused",
      sample: (request, options) => inner.sample(request, options),
      close: () => inner.close(),
      isReady: () => {
        questions++;
        return Promise.resolve(--paused < 0);
      },
    };
    const episode = await playWith(engine, { clock });
    expect(episode.outcome).toBe("completed");
    expect(questions).toBe(21);
    // Waits double from 100 to 5,000 ms, each drawn from its upper half.
    expect(clock.waited[0]).toBeLessThanOrEqual(100);
    expect(clock.waited.at(-1)).toBeGreaterThanOrEqual(2500);
    const turn = episode.events.find((event) => event.type === "turn");
    expect(turn?.type === "turn" && turn.attempts).toMatchObject([{ failure: { code: "aborted" } }]);

    paused = Infinity;
    const again = scripted([{ type: "abort", tokens: "Let" }]);
    const failed = await playWith(
      { ...engine, sample: (request, options) => again.sample(request, options) },
      { engineAbort: { maxPauseMs: 60_000 } },
    );
    expect(failed).toMatchObject({ outcome: "failed", failure: { boundary: "engine", code: "timeout" } });
    expect(failed.failure?.message).toContain("resume it, or raise engineAbort.maxPauseMs");
  });

  it("asks the server once for all turns that wait for it", async () => {
    let questions = 0;
    let answer!: (isReady: boolean) => void;
    let script = 0;
    const inner = scripted(() =>
      script++ < 50 ? { type: "abort", tokens: "Let" } : { type: "reply", tokens: " go.<|im_end|>" },
    );
    const engine: Engine = {
      name: "paused",
      sample: (request, options) => inner.sample(request, options),
      close: () => inner.close(),
      isReady: () => {
        questions++;
        return new Promise((resolve) => {
          answer = resolve;
        });
      },
    };
    const playing = Promise.all(Array.from({ length: 50 }, (_, index) => playWith(engine, { episodeId: `e${index}` })));
    const clock = createManualClock();
    for (let step = 0; step < 200; step++) await clock.advance(0);
    expect([script, questions]).toEqual([50, 1]);
    answer(true);
    expect((await playing).every(({ outcome }) => outcome === "completed")).toBe(true);
    expect(questions).toBe(1);
  });

  it.each([
    [{ onAbort: "retry" as "end" }, "engineAbort.onAbort is retry"],
    [{ maxAborts: -1 }, "engineAbort.maxAborts is -1"],
    [{ maxPauseMs: Number.NaN }, "engineAbort.maxPauseMs is NaN"],
  ])("refuses %j before anything happens", async (engineAbort, message) => {
    await expect(playWith(scripted([]), { engineAbort })).rejects.toThrow(message);
  });
});
