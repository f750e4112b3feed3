// Replies of real servers (SGLang 0.5.23, vLLM 0.32.0, both with one of our models on a CPU), read
// by the engines: each must yield the tokens that it holds, or the code for its status and message.
// A few are in tests/goldens/servers; all recorded replies are read if ../shared exists.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { committedGoldens, sharedFolder } from "../../tests/conformance/shared-folder.ts";
import type { SampleResult } from "../core/engine.ts";
import { AttributedError } from "../core/failure.ts";
import { createSglangEngine } from "../engines/sglang/index.ts";
import { createVllmEngine } from "../engines/vllm/index.ts";
import { request } from "./engine-calls.test-helper.ts";
import { createHandlerClient } from "./handler-client.test-helper.ts";
import { asFields, type Fields } from "./index.ts";

type Recorded = {
  readonly name: string;
  readonly path: string;
  readonly body: string | null;
  /** -1 means that no answer came. */
  readonly status: number;
  readonly reply: string;
};

const vocabularySize = 1536;
const samplingPaths = ["/generate", "/v1/completions", "/inference/v1/generate"];

function readRecords(path: string): readonly Recorded[] {
  const lines = readFileSync(path, "utf8").split("\n");
  return lines.filter((line) => line !== "").map((line) => JSON.parse(line) as Recorded);
}

function fieldsIn(text: string | null): Fields {
  try {
    return asFields(JSON.parse(text ?? "")) ?? {};
  } catch {
    return {};
  }
}

/** The call that gets this answer, rebuilt from the parts of the request that the reply must match. */
async function sampleAgain(recorded: Recorded): Promise<SampleResult> {
  const { path, status, reply } = recorded;
  const body = fieldsIn(recorded.body);
  const handler = (): Response => new Response(reply, { status });
  const http = createHandlerClient(handler, { boundary: "engine" });
  const common = { url: "http://server", http, vocabularySize };
  const endpoint = path === "/v1/completions" ? "completions" : "generate";
  const engine = path === "/generate" ? createSglangEngine(common) : createVllmEngine({ ...common, endpoint });
  const params = asFields(body["sampling_params"]) ?? body;
  const ids = body["input_ids"] ?? body["prompt"] ?? body["token_ids"];
  const isPrompt = Array.isArray(ids) && ids.length > 0 && ids.every((id) => Number.isInteger(id) && Number(id) >= 0);
  const most = params["max_new_tokens"] ?? params["max_tokens"];
  const stops = params["stop_token_ids"];
  const told: number[] = [];
  const isStream = body["stream"] === true;
  const sampling = engine.sample(
    request({
      prompt: isPrompt ? (ids as readonly number[]) : [5, 6, 7],
      stopTokenIds: Array.isArray(stops) ? (stops as readonly number[]) : [],
      sampling: {
        maxNewTokens: typeof most === "number" ? most : null,
        extra: params["ignore_eos"] === true ? { ignore_eos: true } : {},
      },
    }),
    isStream ? { onTokens: (tokens) => void told.push(...tokens) } : {},
  );
  try {
    const result = await sampling;
    if (isStream) expect(told).toEqual([...result.sampledTokens]);
    return result;
  } catch (error) {
    // For the record of a truncated stream, the tokens of its complete frames were reported.
    if (isStream && path === "/v1/completions" && status === 200) {
      expect(told.length).toBeGreaterThan(1);
      expect(told).toEqual(Array.from(reply.matchAll(/"token_ids":\[(\d+)\]\}/g), ([, id]) => Number(id)));
    }
    throw error;
  }
}

/** The expected result of a record: its ids, or a failure code. */
function expectedOf({ path, body, status, reply }: Recorded): readonly number[] | string {
  if (/context length|maximum allowed length/.test(reply)) return "context-length";
  if (status === 400 || status === 403 || status === 404) return "bad-request";
  if (status === 500) return "server-error";
  const isStream = reply.startsWith("data: ");
  const frames = isStream
    ? reply.split("\n\n").map((frame) => fieldsIn(frame.replace("data: ", "")))
    : [fieldsIn(reply)];
  if (frames.some((frame) => "error" in frame)) return "bad-request";
  if (isCut(reply) || (fieldsIn(body)["return_logprob"] === undefined && path === "/generate")) return "bad-reply";
  if (/"n":2/.test(body ?? "") || reply.startsWith("[")) return "bad-reply";
  const listed = frames.map((frame) => {
    const choice = asFields((frame["choices"] as readonly unknown[] | undefined)?.[0]);
    return (frame["output_ids"] ?? choice?.["token_ids"] ?? []) as readonly number[];
  });
  return path === "/generate" ? (listed.findLast((ids) => ids.length > 0) ?? []) : listed.flat();
}

/** True if the recording was truncated because the reply was long. */
function isCut(reply: string): boolean {
  if (reply.startsWith("data: ")) return !reply.includes("[DONE]");
  return !reply.endsWith("}") && !reply.endsWith("]");
}

async function outcomeOf(call: Promise<SampleResult>): Promise<readonly number[] | string> {
  try {
    const { sampledTokens, logprobs, weightSpans } = await call;
    expect(logprobs).toHaveLength(sampledTokens.length);
    expect(weightSpans.reduce((sum, { tokenCount }) => sum + tokenCount, 0)).toBe(sampledTokens.length);
    return [...sampledTokens];
  } catch (error) {
    if (error instanceof AttributedError) return error.failure.code;
    throw error;
  }
}

const folders = { "tests/goldens": committedGoldens("servers"), "../shared": sharedFolder("servers") } as const;
const files = ["sglang-0.5.23.jsonl", "vllm-0.32.0.jsonl"];

describe("recorded replies", () => {
  for (const [name, folder] of Object.entries(folders)) {
    test.skipIf(folder === null).each(files)(`${name}/servers/%s (skipped without ${name})`, async (file) => {
      const records = readRecords(join(folder!, file)).filter(
        ({ path, status }) => samplingPaths.includes(path) && status !== -1,
      );
      const wrong: unknown[] = [];
      for (const recorded of records) {
        const outcome = await outcomeOf(sampleAgain(recorded));
        const wanted = expectedOf(recorded);
        if (JSON.stringify(outcome) !== JSON.stringify(wanted)) wrong.push({ name: recorded.name, outcome, wanted });
      }
      expect(wrong).toEqual([]);
      expect(records.length).toBeGreaterThan(5);
    });
  }
});
