// Replies of real servers, compared with those of our fronts. Every recorded request is sent to the
// front with the model that the real server had, and the two replies are compared: status, type,
// error texts, the fields and their types, and, where the model determines them, the tokens and
// their logprobs. A list explains each deliberate difference.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";

import { committedGoldens, sharedFolder } from "./conformance/shared-folder.ts";
import { loadEmbeddedEngine, type EmbeddedEngine } from "../src/engines/embedded/index.ts";
import { createSglangFront, createVllmFront } from "../src/testing/index.ts";
import { loadTokenizer } from "../src/tokenizers/index.ts";
import type { Tokenizer } from "../src/core/index.ts";

type Probe = {
  readonly name: string;
  readonly method: string;
  readonly path: string;
  /** The request's text, in which `<model>` stands for the model folder. */
  readonly body: string | null;
  /** HTTP status; -1 without an answer. */
  readonly status: number;
  readonly type: string | null;
  /** Truncated at 6,000 characters. */
  readonly reply: string;
};
type Reply = { readonly status: number; readonly type: string | null; readonly text: string };
type Handle = (request: Request) => Promise<Response>;
/** Descriptions of the differences; empty if there are none. */
type Differences = string[];

const folder = join(committedGoldens("servers"), "model");
const endTokenId = 1529;
/** Tolerance for float32 sums in another order; the largest measured difference is 2.7e-5. */
const logprobTolerance = 1e-3;

let engine: EmbeddedEngine;
let tokenizer: Tokenizer;

beforeAll(async () => {
  tokenizer = await loadTokenizer(folder);
  engine = await loadEmbeddedEngine(folder, { threads: 1 });
});
afterAll(() => engine.close());

/** All recorded requests if `../shared` is beside the repository, else those that every clone has. */
function probesOf(file: string): readonly Probe[] {
  const recorded = sharedFolder("servers", file) ?? join(committedGoldens("servers"), file);
  const probes = readFileSync(recorded, "utf8")
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line) as Probe);
  // Probes without an answer are excluded: a time limit, or a server that had just died.
  return probes.filter(({ status }) => status !== -1);
}

async function replay(handle: Handle, probe: Probe): Promise<Reply> {
  const body = probe.body?.replaceAll("<model>", folder) ?? null;
  const response = await handle(
    new Request(`http://server${probe.path}`, {
      method: probe.method,
      body,
      headers: body === null ? {} : { "content-type": "application/json" },
    }),
  );
  const text = (await response.text()).replaceAll(folder, "<model>");
  return { status: response.status, type: response.headers.get("content-type"), text };
}

type Deliberate = Readonly<Record<string, string>>;
type Server = {
  readonly file: string;
  readonly front: () => Handle;
  /** Probes whose answer differs deliberately, with the reason. */
  readonly deliberate: Deliberate;
  /** Pages that we implement only in part. */
  readonly partial: readonly string[];
};

const servers: Readonly<Record<string, Server>> = {
  "SGLang 0.5.23": {
    file: "sglang-0.5.23.jsonl",
    front: () => {
      const front = createSglangFront({
        sampler: engine.sampler,
        tokenizer,
        endTokenIds: [endTokenId],
        modelPath: folder,
        contextLength: 2048,
        vocabularySize: 1536,
      });
      return (request) => front.handle(request);
    },
    deliberate: {
      "GET /model_info": "the front knows no architecture",
      "GET /get_model_info": "the front knows no architecture",
      "logprob_start 0": "the front samples; it scores no prompts",
      token_ids_logprob: "the front reports the logprobs of sampled tokens only",
      "update weights bad path": "our loader says in its own words why it cannot read the folder",
    },
    partial: ["/server_info", "/v1/loads", "/model_info", "/get_model_info"],
  },
  "vLLM 0.32.0": {
    file: "vllm-0.32.0.jsonl",
    front: () => {
      const front = createVllmFront({
        sampler: engine.sampler,
        model: folder,
        scaleOut: false,
        reportsCachedTokens: false,
        tokenizer,
        endTokenIds: [endTokenId],
        contextLength: 2048,
        vocabularySize: 1536,
      });
      return (request) => front.handle(request);
    },
    deliberate: {
      "GET /server_info?config_format=json": "the front has no configuration to show",
      "GET /get_world_size": "the front has no ranks",
      "GET /v1/models": "the front leaves out the list of permissions",
    },
    partial: [],
  },
};

describe.each(Object.entries(servers))("the front of %s answers as the server did", (_name, server) => {
  test("every recorded request", async () => {
    const handle = server.front();
    const probes = probesOf(server.file);
    expect(probes.length).toBeGreaterThan(15);
    const found: Record<string, Differences> = {};
    // Probes run in order: some set state that later ones show.
    for (const probe of probes) {
      const ours = await replay(handle, probe);
      const differences = compare(probe, ours, server);
      if (differences.length > 0) found[probe.name] = differences;
    }
    const names = new Set(probes.map(({ name }) => name));
    const deliberate = Object.keys(server.deliberate).filter((name) => names.has(name));
    const unexplained = Object.entries(found).filter(([name]) => !deliberate.includes(name));
    expect(unexplained).toEqual([]);
    // Differences that no longer occur must be removed from the list.
    expect(deliberate.filter((name) => found[name] === undefined)).toEqual([]);
  });
});

function compare(probe: Probe, ours: Reply, server: Server): Differences {
  if (probe.status !== ours.status) return [`status ${probe.status}, ours ${ours.status}: ${ours.text.slice(0, 300)}`];
  const [type, ourType] = [probe.type, ours.type].map((value) => value?.split(";")[0] ?? null);
  if (type === null) return probe.reply === ours.text ? [] : [`"${probe.reply}", ours "${ours.text}"`];
  if (type !== ourType) return [`content type ${type}, ours ${ourType}`];
  if (type === "text/event-stream") return compareStreams(probe, ours, server);
  if (type !== "application/json") return probe.reply === ours.text ? [] : [`"${probe.reply}", ours "${ours.text}"`];
  const theirs = parse(probe.reply.replaceAll("<path>", "<model>"));
  // The recording truncates long replies: only their status and type are compared.
  return theirs === undefined ? [] : compareValues(theirs, parse(ours.text), { probe, server, path: "" });
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function compareStreams(probe: Probe, ours: Reply, server: Server): Differences {
  const [frames, ourFrames] = [probe.reply, ours.text].map((text) =>
    text
      .trim()
      .split("\n\n")
      .map((frame) => frame.replace(/^data: /, ""))
      // Frames of several completions arrive in the order of sampling.
      .toSorted((one, other) => sequenceOf(one) - sequenceOf(other)),
  ) as [string[], string[]];
  // The recording truncates long replies.
  const isCut = frames.at(-1) !== "[DONE]";
  if (isCut) frames.pop();
  if (!isCut && frames.length !== ourFrames.length) return [`${frames.length} frames, ours ${ourFrames.length}`];
  return frames.flatMap((frame, index) => {
    const our = ourFrames[index]!;
    if (frame === "[DONE]" || our === "[DONE]") return frame === our ? [] : [`frame ${index}: ${frame}, ours ${our}`];
    return compareValues(parse(frame), parse(our), { probe, server, path: `frame ${index}` });
  });
}

function sequenceOf(frame: string): number {
  return Number(/"index":(\d+)\}$/.exec(frame)?.[1] ?? (frame === "[DONE]" ? 99 : 0));
}

type Place = { readonly probe: Probe; readonly server: Server; readonly path: string };

/** Values that differ from run to run, of which only the type is compared. */
const changing =
  /\.(id|request_id|created|timestamp|e2e_latency|response_sent_to_client_ts|cached_tokens|system_fingerprint|max_total_num_tokens)$/;

function compareValues(theirs: unknown, our: unknown, place: Place): Differences {
  const { path, probe, server } = place;
  // Cached tokens depend on earlier requests.
  if (path.endsWith(".cached_tokens_details")) return [];
  if (path.endsWith(".finish_reason") && isSampled(probe)) return typeOf(theirs) === typeOf(our) ? [] : [path];
  if (typeOf(theirs) !== typeOf(our)) return [`${path} is ${show(theirs)}, ours ${show(our)}`];
  if (Array.isArray(theirs) && Array.isArray(our)) {
    if (isSampled(probe) && path.endsWith("_logprobs")) return [];
    if (theirs.length !== our.length)
      return isSampled(probe) ? [] : [`${path} has ${theirs.length} entries, ours ${our.length}`];
    return theirs.flatMap((value, index) => compareValues(value, our[index], { ...place, path: `${path}[${index}]` }));
  }
  if (typeof theirs === "object" && theirs !== null) {
    const [fields, ourFields] = [theirs, our] as [Record<string, unknown>, Record<string, unknown>];
    const isPartial = server.partial.some((page) => probe.path.startsWith(page));
    const names = isPartial
      ? Object.keys(ourFields)
      : [...new Set([...Object.keys(fields), ...Object.keys(ourFields)])];
    return names.flatMap((name) => {
      const at = `${path}.${name}`;
      if (!(name in fields)) return [`${at} is ours alone`];
      if (!(name in ourFields)) return [`${at} is missing`];
      return compareValues(fields[name], ourFields[name], { ...place, path: at });
    });
  }
  if (theirs === our || changing.test(path)) return [];
  if (typeof theirs === "number" && typeof our === "number") {
    if (isSampled(probe) || (!Number.isInteger(theirs) && Math.abs(theirs - our) < logprobTolerance)) return [];
  }
  if (typeof theirs === "string" && typeof our === "string") {
    if (isSampled(probe) && !path.endsWith("message") && !path.endsWith("error")) return [];
    // The long texts about wrong types repeat the request and name files of the server; ours
    // contains their sentence.
    const problem = /'msg': "(.*)"/.exec(our)?.[1];
    if (problem !== undefined && theirs.includes("validation error") && theirs.includes(problem)) return [];
  }
  return [`${path} is ${show(theirs)}, ours ${show(our)}`];
}

/** True if the tokens of a reply were chosen at random. */
function isSampled({ body }: Probe): boolean {
  const sampling = /"temperature":\s*(-?[\d.e]+|null)/.exec(body ?? "")?.[1];
  return sampling !== "0" && sampling !== "1e-7" && /"(input_ids|text|prompt)"/.test(body ?? "");
}

function typeOf(value: unknown): string {
  return value === null ? "null" : Array.isArray(value) ? "list" : typeof value;
}

function show(value: unknown): string {
  return JSON.stringify(value)?.slice(0, 300) ?? "absent";
}
