// The distribution that sampled: kept ids and routed experts in replies of real servers (SGLang 0.5.23,
// vLLM 0.32.0 with Model Runner V2, on a CPU), hostile ones, and the engine in this process, whose own
// scores say what the logprobs over the kept ids must be.

import { describe, expect, test } from "vitest";

import { defaultSampling, type Engine, type SampleRequest, type SampleResult } from "../core/engine.ts";
import { AttributedError } from "../core/failure.ts";
import { TokenBuffer } from "../core/token-buffer.ts";
import { createHandlerClient } from "../http/handler-client.test-helper.ts";
import { loadEmbeddedEngine } from "./embedded/index.ts";
import { type Recorded, recordedReplies } from "./recorded-replies.test-helper.ts";
import { createSglangEngine } from "./sglang/index.ts";
import { createVllmEngine } from "./vllm/index.ts";

const records = recordedReplies("sampled");
const named = (name: string): Recorded => records.find((record) => record.name === name)!;
const vocabularySize = 1536;

function engineFor(path: string, handler: (asked: Request) => Response | Promise<Response>): Engine {
  const common = { url: "http://server", http: createHandlerClient(handler, { boundary: "engine" }), vocabularySize };
  if (path === "/generate") return createSglangEngine(common);
  const endpoint = path === "/v1/completions" ? "completions" : "generate";
  return createVllmEngine({ ...common, endpoint, logprobsMode: "processed" });
}

/** The recorded request, as the loop makes it. */
function requestOf({ body }: Recorded): SampleRequest {
  const ids = (body["input_ids"] ?? body["token_ids"] ?? body["prompt"]) as readonly number[];
  const params = (body["sampling_params"] ?? body) as Readonly<Record<string, number>>;
  return {
    prompt: TokenBuffer.from(Uint32Array.from(ids)),
    sampling: {
      ...defaultSampling,
      temperature: params["temperature"] ?? 1,
      topK: params["top_k"] ?? -1,
      topP: params["top_p"] ?? 1,
      maxNewTokens: params["max_new_tokens"] ?? params["max_tokens"] ?? 8,
    },
    stopTokenIds: [],
    requestId: "r",
    routingKey: null,
  };
}

/** The result that the engine reads from a reply, and the body that it sent. */
async function sampled(
  record: Recorded,
  change: Partial<SampleRequest>,
  reply = record.reply,
): Promise<{ readonly result: SampleResult; readonly body: Readonly<Record<string, unknown>> }> {
  let body: Readonly<Record<string, unknown>> = {};
  const engine = engineFor(record.path, async (asked) => {
    body = (await asked.json()) as typeof body;
    const type = reply.startsWith("data:") ? "text/event-stream" : "application/json";
    return new Response(reply, { status: record.status, headers: { "content-type": type } });
  });
  const streaming = reply.startsWith("data:") ? { onTokens: () => undefined } : {};
  return { result: await engine.sample({ ...requestOf(record), ...change }, streaming), body };
}

async function failureOf(call: Promise<unknown>): Promise<AttributedError["failure"]> {
  const error = await call.then(
    () => null,
    (thrown: unknown) => thrown,
  );
  if (!(error instanceof AttributedError)) throw new Error(`Not an attributed error: ${String(error)}`);
  return error.failure;
}

/** The lists of a mask. */
function listsOf(mask: Uint32Array): number[][] {
  const lists: number[][] = [];
  for (let at = 0; at < mask.length; at += 1 + mask[at]!) lists.push([...mask.subarray(at + 1, at + 1 + mask[at]!)]);
  return lists;
}

const maskOn = { samplingMask: true };

describe("kept ids of real servers", () => {
  test.each([
    ["mask top_k 8", [8, 8, 8, 8]],
    ["mask T2 top_k 6 top_p .8", [2, 6, 6, 1]],
    ["mask greedy", [1, 1, 1, 1]],
  ])("SGLang, %s: the lists of the reply, and the logprobs over them", async (name, counts) => {
    const { result, body } = await sampled(named(name), maskOn);
    const meta = (JSON.parse(named(name).reply) as { meta_info: Record<string, readonly number[]> }).meta_info;
    expect(body).toMatchObject({ return_sampling_mask: true, return_logprob: true });
    expect(listsOf(result.samplingMask!)).toEqual(meta["output_token_sampling_mask"]);
    expect(listsOf(result.samplingMask!).map(({ length }) => length)).toEqual(counts);
    expect([...result.logprobs!]).toEqual(meta["output_token_sampling_logprobs"]!.map(Math.fround));
    expect(result.isRenormalized).toBe(true);
  });

  test("without a request nothing is sent for it, and the logprobs are of the whole distribution", async () => {
    const { result, body } = await sampled(named("mask T2 top_k 6 top_p .8"), {});
    expect(Object.keys(body)).not.toContain("return_sampling_mask");
    expect(result.samplingMask ?? null).toBeNull();
    expect(result.isRenormalized ?? false).toBe(false);
    expect(result.logprobs![0]).toBeCloseTo(-0.24208, 5);
  });

  test("vLLM: the lists are the ids with a processed logprob, whose probabilities sum to 1", async () => {
    const { result } = await sampled(named("v2 plain"), maskOn);
    const [choice] = (
      JSON.parse(named("v2 plain").reply) as {
        choices: readonly {
          logprobs: { content: readonly { top_logprobs: readonly { token_id: number; logprob: number }[] }[] };
        }[];
      }
    ).choices;
    const lists = listsOf(result.samplingMask!);
    for (const [token, { top_logprobs: top }] of choice!.logprobs.content.entries()) {
      const kept = top.filter(({ logprob }) => logprob > -9999);
      expect(lists[token]!.toSorted((a, b) => a - b)).toEqual(
        [...new Set(kept.map((one) => one.token_id))].toSorted((a, b) => a - b),
      );
      const byId = new Map(kept.map((one) => [one.token_id, one.logprob]));
      const total = lists[token]!.reduce((sum, id) => sum + Math.exp(byId.get(id)!), 0);
      expect(total).toBeCloseTo(1, 5);
      expect(result.logprobs![token]).toBe(Math.fround(byId.get(result.sampledTokens[token]!)!));
    }
    expect(result.isRenormalized).toBe(true);
  });

  test("vLLM, streamed: every chunk has the kept ids of its tokens, and the last one all experts", async () => {
    // The recorded chunks have no logprobs, which the engine requires.
    const reply = named("v2 stream").reply.replaceAll(/"token_ids":\[(\d+)\](.*?)"logprobs":null/g, (_, id: string, rest: string) => `"token_ids":[${id}]${rest}"logprobs":{"content":[{"token_id":${id},"logprob":-1}]}`); // prettier-ignore
    const { result } = await sampled(named("v2 stream"), { ...maskOn, routedExpertsFrom: 0 }, reply);
    expect(listsOf(result.samplingMask!)).toEqual([
      [487, 905, 912, 1374],
      [7, 487, 1374, 1407],
      [7, 503, 1374, 1391],
    ]);
    expect(result.routedExpertBytes!.length).toBe((33 + 3 - 1) * 3 * 2 * 4);
  });

  test("requests that a server answers with an error are refused before they are sent, with the remedy", async () => {
    const problem = (record: Recorded) => engineFor(record.path, () => new Response()).samplingMaskProblem!(requestOf(record).sampling); // prettier-ignore
    expect(problem(named("mask top_p .9"))).toContain("top-k of 1 to 4096, and top-k is -1; set --top-k");
    expect(problem(named("mask greedy"))).toBeNull();
    expect(problem(named("v2 no top_k"))).toContain("set --top-k and --temperature");
    expect(problem(named("v2 completions"))).toContain("--endpoint generate");
    expect(problem(named("v2 plain"))).toBeNull();
    const raw = createVllmEngine({ url: "http://server", logprobsMode: "raw" });
    expect(raw.samplingMaskProblem!({ ...defaultSampling, topK: 4 })).toContain("--logprobs-mode processed");
  });
});

describe("routed experts of vLLM", () => {
  const shape = { layers: 3, topk: 2 };

  test.each([
    ["v2 routed from", 32],
    ["v2 completions", 0],
  ])("%s", async (name, from) => {
    const record = named(name);
    const reply = record.reply.replace(
      '"logprobs":null',
      record.path === "/v1/completions"
        ? '"logprobs":{"tokens":["token_id:1374","token_id:1374","token_id:1374"],"token_logprobs":[-1,-1,-1]}'
        : '"logprobs":{"content":[{"token_id":912,"logprob":-1},{"token_id":7,"logprob":-1},{"token_id":1391,"logprob":-1}]}',
    );
    const { result, body } = await sampled(record, { routedExpertsFrom: from }, reply);
    expect(result.routedExpertShape).toEqual(shape);
    const bytes = result.routedExpertBytes!;
    expect(bytes.length).toBe((33 + 3 - 1 - from) * 6 * 4);
    const numbers = new Int32Array(bytes.buffer, bytes.byteOffset, bytes.length / 4);
    if (from === 32) {
      expect(body["sampling_params"]).toMatchObject({ routed_experts_prompt_start: 32 });
      expect([...numbers]).toEqual([7, 1, 4, 3, 4, 2, 7, 5, 7, 5, 4, 5, 3, 1, 4, 7, 4, 5]);
    }
  });

  test("a reply of SGLang has the same rows of its last tokens, as raw numbers", async () => {
    const { result } = await sampled(named("routed from prompt"), { routedExpertsFrom: 32 });
    expect(result.routedExpertBytes!.length).toBe((33 + 5 - 1 - 32) * 6 * 4);
  });
});

describe("hostile replies", () => {
  const record = named("mask T2 top_k 6 top_p .8");
  const lists = "[[494,63],[295,394,471,1027,731,32],[32,295,1328,394,471,340],[476]]";
  test.each([
    ["no lists", `"output_token_sampling_mask":${lists},`, "", "is missing"],
    ["a number", lists, "7", "is not a list"],
    ["a list too few", ",[476]]", "]", "3 lists for 4 sampled tokens"],
    ["no list for a token", "[476]]", "476]", "has no list for token 3"],
    ["an id beyond the vocabulary", "[476]]", "[476,1536]]", "1536 for token 3, which is not a token id"],
    ["a negative id", "[494,63]", "[494,-1]", "-1 for token 0"],
    ["text", "[494,63]", `[494,"63"]`, "for token 0, which is not a token id"],
    ["an id twice", "[494,63]", "[494,494]", "repeats an id for token 0"],
    ["without the sampled token", "[494,63]", "[495,63]", "does not have token 0"],
    ["without logprobs over them", `"output_token_sampling_logprobs":[-0.02`, `"other":[-0.02`, "no entries for 4"],
    ["a logprob too few", "-0.5005624294281006,0.0]", "-0.5]", "3 entries for 4"],
    ["a logprob of null", "-0.5005624294281006,0.0]", "null,0.0]", "sampled token 2 is null"],
  ])("SGLang, kept ids: %s", async (_, from, to, state) => {
    expect(record.reply).toContain(from);
    const failure = await failureOf(sampled(record, maskOn, record.reply.replace(from, to)));
    expect(failure).toMatchObject({ boundary: "engine", code: "bad-reply" });
    expect(failure.message).toContain(state);
  });

  test("vLLM that was started without the flag is named", async () => {
    const reply = named("v2 plain").reply.replace(/"sampling_mask":\[.*?\]\]/, '"sampling_mask":null');
    const failure = await failureOf(sampled(named("v2 plain"), maskOn, reply));
    expect(failure.message).toContain("start the server with --return-sampling-mask");
  });
});

describe("the engine in this process", () => {
  test("logprobs over the kept ids are those that its own scores give, and the draws do not change", async () => {
    const engine = await loadEmbeddedEngine("models/bookshop-1m", { threads: 1, seed: 7 });
    const prompt = TokenBuffer.from(Uint32Array.from((named("mask top_k 8").body["input_ids"] as number[]) ?? []));
    for (const cut of [{ topK: 8 }, { topP: 0.8 }, { minP: 0.05 }, { topK: 20, topP: 0.95, minP: 0.01 }]) {
      const sampling = { ...defaultSampling, ...cut, seed: 11, maxNewTokens: 12 };
      const request = { prompt, sampling, stopTokenIds: [], requestId: "a", routingKey: null };
      const plain = await engine.sample({ ...request, requestId: "b" });
      const kept = await engine.sample({ ...request, samplingMask: true });
      expect(kept.sampledTokens).toEqual(plain.sampledTokens);
      expect(plain.samplingMask ?? null).toBeNull();
      const tokens = Uint32Array.from([...prompt.view(), ...kept.sampledTokens]);
      const scored = await engine.score({
        tokens,
        from: prompt.length,
        topTokens: 256,
        requestId: "s",
        routingKey: null,
      });
      const lists = listsOf(kept.samplingMask!);
      expect(lists.length).toBe(kept.sampledTokens.length);
      for (const [token, list] of lists.entries()) {
        const top = scored.top!;
        const ids = [...top.ids.subarray(token * top.width, (token + 1) * top.width)];
        // Truncation keeps the most probable ids.
        expect(list.toSorted((a, b) => a - b)).toEqual(ids.slice(0, list.length).toSorted((a, b) => a - b));
        const logprobs = top.logprobs.subarray(token * top.width, token * top.width + list.length);
        const total = Math.log(logprobs.reduce((sum, logprob) => sum + Math.exp(logprob), 0));
        expect(kept.logprobs![token]).toBeCloseTo(scored.logprobs[token]! - total, 5);
      }
    }
    const greedy = { prompt, sampling: { ...defaultSampling, temperature: 0, maxNewTokens: 3 }, stopTokenIds: [] };
    const one = await engine.sample({ ...greedy, requestId: "g", routingKey: null, samplingMask: true });
    expect([...one.logprobs!]).toEqual([0, 0, 0]);
    expect(listsOf(one.samplingMask!)).toEqual([...one.sampledTokens].map((id) => [id]));
    const whole = { prompt, sampling: defaultSampling, stopTokenIds: [], requestId: "w", routingKey: null };
    const failure = await failureOf(engine.sample({ ...whole, samplingMask: true }));
    expect(failure).toMatchObject({ code: "bad-request" });
    expect(failure.message).toContain("set top-k, top-p or min-p");
    await engine.close();
  });
});
