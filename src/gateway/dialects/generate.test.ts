// The native interfaces of SGLang and vLLM, as clients that send token ids use them: the engines of
// this package sample through the gateway, and answers have the form of recorded replies.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { Engine, SampleOptions, SampleRequest, SampleResult } from "../../core/index.ts";
import { TokenBuffer } from "../../core/index.ts";
import { createSglangEngine } from "../../engines/sglang/index.ts";
import { createVllmEngine } from "../../engines/vllm/index.ts";
import { eventsOf, openWorld, post, recordViolations, tokenizer } from "../gateway-world.test-helper.ts";
import { fieldTables } from "./field-table.ts";

type Json = Readonly<Record<string, unknown>>;

const goldens = join(import.meta.dirname, "..", "..", "..", "tests", "goldens", "servers");
const sampling = { temperature: 1, topP: 1, topK: -1, minP: 0, repetitionPenalty: 1, seed: null, extra: {} };
const ids = [...tokenizer.encode("hello")];
const of = (value: unknown): Json => value as Json;

const servers = {
  sglang: {
    path: "/generate",
    body: { input_ids: ids, return_logprob: true, sampling_params: { max_new_tokens: 9 } },
    open: (url: string): Engine => createSglangEngine({ url }),
  },
  vllm: {
    path: "/inference/v1/generate",
    body: { token_ids: ids, sampling_params: { max_tokens: 9, logprobs: 0 } },
    open: (url: string): Engine => createVllmEngine({ url, endpoint: "generate", onWarning: () => undefined }),
  },
} as const;
const names = Object.keys(servers) as (keyof typeof servers)[];

/** Replies with status 200 that a real server gave to a path. */
function repliesOf(name: keyof typeof servers): { readonly body: Json; readonly reply: string }[] {
  const file = { sglang: "sglang-0.5.23.jsonl", vllm: "vllm-0.32.0.jsonl" }[name];
  const lines = readFileSync(join(goldens, file), "utf8").trim().split("\n");
  const all = lines.map((line) => of(JSON.parse(line)));
  return all
    .filter(({ path, status }) => path === servers[name].path && status === 200)
    .map(({ body, reply }) => ({ body: of(typeof body === "string" ? JSON.parse(body) : body), reply: String(reply) }));
}

describe.each(names)("the interface of %s", (name) => {
  const { path, body, open } = servers[name];

  test.each([false, true])("serves an engine, whose prompts extend the record, streamed: %s", async (streams) => {
    const world = await openWorld((prompt) => (prompt.includes("again") ? "done" : "fine"));
    const listener = await world.gateway.listen({ port: 0 });
    const engine = open(`${listener.url}/s/s1`);
    const sample = (prompt: readonly number[], options: SampleOptions = {}): Promise<SampleResult> => {
      const request: SampleRequest = {
        prompt: TokenBuffer.from(Uint32Array.from(prompt)),
        sampling: { ...sampling, maxNewTokens: 50 },
        stopTokenIds: [...tokenizer.encode("<|im_end|>")],
        requestId: "r",
        routingKey: null,
      };
      return engine.sample(request, options);
    };
    const streamed: number[] = [];
    const options = streams ? { onTokens: (tokens: Uint32Array) => void streamed.push(...tokens) } : {};
    const first = await sample(ids, options);
    expect([...first.sampledTokens]).toEqual([...world.sampled[0]!.tokens]);
    expect(first.logprobs).toHaveLength(first.sampledTokens.length);
    expect(first).toMatchObject({ finish: { reason: "stop" }, usage: { promptTokens: ids.length } });
    if (streams) expect(streamed).toEqual([...first.sampledTokens]);
    const second = await sample([...ids, ...first.sampledTokens, ...tokenizer.encode(" again")], options);
    expect(tokenizer.decode(second.sampledTokens)).toContain("done");
    expect(world.gateway.sessions[0]!.counters).toMatchObject({ calls: 2, extended: 1, branched: {} });
    await world.gateway.reward("s1", { reward: 1, metrics: {}, log: "", info: new Map() });
    const episode = await world.gateway.end("s1");
    expect(recordViolations(episode, world.sampled)).toEqual([]);
    expect(episode.trajectory.turns[1]!.parent).toBe(0);
    await engine.close();
    await listener.close();
    await world.close();
  });

  test("answers with fields of its replies, and echoes the id of the request", async () => {
    const world = await openWorld(() => "fine");
    const id = name === "sglang" ? { rid: "mine" } : { request_id: "mine" };
    const scripted = world.engine.sample.bind(world.engine);
    world.engine.sample = async (request, options) => {
      const result = await scripted(request, options);
      const tokenCount = result.sampledTokens.length;
      return {
        ...result,
        weightSpans: [
          { tokenCount: 1, dispatch: "v1", reply: "v1" },
          { tokenCount: tokenCount - 1, dispatch: "v2", reply: "v2" },
        ],
      };
    };
    const { status, json, text } = await post(world.gateway, path, { ...body, ...id });
    expect([status, text]).toEqual([200, text]);
    expect(name === "sglang" ? of(json["meta_info"])["id"] : json["request_id"]).toBe("mine");
    const recorded = repliesOf(name).flatMap(({ reply }) => (reply.startsWith("{") ? [of(JSON.parse(reply))] : []));
    if (name === "sglang") {
      expect(recorded.length).toBeGreaterThan(0);
      const known = new Set(recorded.flatMap((reply) => Object.keys(of(reply["meta_info"]))));
      expect(Object.keys(of(json["meta_info"])).filter((field) => !known.has(field))).toEqual([]);
      expect(json["text"]).toBe("fine");
    }
    const count = world.sampled[0]!.tokens.length;
    const versions = [
      { version: "v1", start: 0, end: 1 },
      { version: "v2", start: 1, end: count },
    ];
    const holder = name === "sglang" ? of(json["meta_info"]) : of((json["choices"] as unknown[])[0]);
    expect(holder["weight_versions"]).toEqual(versions);
    if (name === "sglang") expect(holder["weight_version"]).toBe("v2");
    const streamed = await post(world.gateway, path, { ...body, ...id, stream: true });
    expect(streamed.text.endsWith("data: [DONE]\n\n")).toBe(true);
    expect(eventsOf(streamed.text)).toHaveLength(1);
    await world.close();
  });

  test("ends at the ids and the strings that the client adds, with the ids that were sampled", async () => {
    const world = await openWorld(() => "one END two");
    const key = name === "sglang" ? "input_ids" : "token_ids";
    const [stopId] = tokenizer.encode("zebra");
    const params = { stop: ["END"], stop_token_ids: [stopId] };
    const { json, text } = await post(world.gateway, path, { [key]: ids, sampling_params: params });
    expect(text).toContain('"END"');
    const sampled = name === "sglang" ? json["output_ids"] : of((json["choices"] as unknown[])[0])["token_ids"];
    expect(tokenizer.decode(sampled as number[])).toContain("END");
    if (name === "sglang") expect(String(json["text"]).trim()).toBe("one");
    await world.close();
  });

  test.each([
    ["text", "hello"],
    ["a batch", [ids, ids]],
    ["nothing", []],
    ["a fraction", [1.5]],
    ["an id below 0", [-1]],
    ["an id beyond the vocabulary", [4_000_000_000]],
    ["an absent prompt", null],
  ])("refuses a prompt that is %s", async (_, prompt) => {
    const world = await openWorld(() => "fine");
    const field = name === "sglang" ? "input_ids" : "token_ids";
    const { status, json } = await post(world.gateway, path, { ...body, [field]: prompt });
    expect([status, json["error"]]).toMatchObject([400, { code: 400, param: field }]);
    expect(world.sampled).toEqual([]);
    await world.close();
  });

  test("counts the tokens of a prompt as they are", async () => {
    const world = await openWorld(() => "fine");
    await post(world.gateway, path, body);
    expect((await post(world.gateway, `${path}/count_tokens`, body)).json).toEqual({ input_tokens: ids.length });
    await world.close();
  });
});

test("the table has a row for every sampling parameter that SGLang knows", () => {
  const lines = readFileSync(join(goldens, "sglang-0.5.23.jsonl"), "utf8").trim().split("\n");
  const said = lines.find((line) => line.includes("unknown field")) ?? "";
  const known = [...said.matchAll(/`(\w+)`/g)].map(([, name = ""]) => name).slice(1);
  expect(known.length).toBeGreaterThan(20);
  const rows = Object.keys(fieldTables.sglang);
  expect(known.filter((name) => !rows.includes(`sampling_params.${name}`))).toEqual([]);
});
