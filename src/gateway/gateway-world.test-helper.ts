// A gateway in front of a scripted policy, which exposes all prompts and actions, and clients that
// echo answers like real ones.

import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type {
  Constraint,
  ConstraintKind,
  Episode,
  Renderer,
  SampleOptions,
  SampleRequest,
  SampleResult,
} from "../core/index.ts";
import { createScriptedEngine, type ScriptedEngine } from "../engines/scripted/index.ts";
import { createQwenRenderer } from "../renderers/index.ts";
import { episodeSamples } from "../rollout/index.ts";
import { createFileRunStore, type FileRunStore, resumeFileRunStore } from "../store/index.ts";
import { createReadableTokenizer } from "../tokenizers/index.ts";
import { turnPrompt } from "../trajectories/index.ts";
import { createGateway, type Gateway, type GatewayOptions } from "./index.ts";

export const tokenizer = createReadableTokenizer();

/** Text that the policy samples for a prompt. */
export type Policy = (prompt: string, call: number) => string | Promise<string>;

export type World = {
  readonly gateway: Gateway;
  readonly store: FileRunStore;
  readonly folder: string;
  readonly engine: ScriptedEngine;
  /** Prompts that the engine received, and the tokens that it sampled. */
  readonly sampled: {
    readonly prompt: Uint32Array;
    readonly tokens: Uint32Array;
    readonly seed: number | null;
    readonly constraint: Constraint | null;
  }[];
  /** Stops like a killed process, closing nothing; then another gateway resumes its folder. */
  restart(): Promise<World>;
  close(): Promise<void>;
};

export type WorldOptions = GatewayOptions & {
  readonly renderer?: Renderer;
  /** Kinds of constraints that the engine takes. @default none */
  readonly constraints?: readonly ConstraintKind[];
  /** Logprobs of every answer. @default those of the scripted engine */
  readonly logprobs?: readonly number[];
};

export const allConstraints = ["json-schema", "regex", "ebnf", "tool-call", "tool-call-or-answer"] as const;

export async function openWorld(policy: Policy, worldOptions: WorldOptions = {}, folder?: string): Promise<World> {
  const { renderer = createQwenRenderer({ tokenizer, family: "qwen2.5-instruct" }), ...rest } = worldOptions;
  const { constraints = [], logprobs, ...options } = rest;
  const place = folder ?? mkdtempSync(join(tmpdir(), "trainable-agents-gateway-"));
  const sampled: World["sampled"] = [];
  const scripted = createScriptedEngine({
    tokenizer,
    constraints,
    script: async ({ prompt }: SampleRequest, { call }) => ({
      type: "reply",
      tokens: `${await policy(tokenizer.decode(prompt.view()), call)}<|im_end|>`,
      ...(logprobs === undefined ? {} : { logprobs }),
    }),
  });
  const engine: ScriptedEngine = Object.assign(Object.create(scripted) as ScriptedEngine, {
    sample: async (request: SampleRequest, own?: SampleOptions): Promise<SampleResult> => {
      const prompt = request.prompt.view().slice();
      const result = await scripted.sample(request, own);
      const { constraint = null } = request;
      sampled.push({ prompt, tokens: result.sampledTokens, seed: request.sampling.seed, constraint });
      return result;
    },
  });
  const earlier = folder === undefined ? null : await resumeFileRunStore(place);
  const store = earlier?.store ?? createFileRunStore(place);
  await store.begin(new Map<string, never>([["format", 4 as never]]));
  const gateway = createGateway({ engine, renderer, store }, options);
  if (earlier !== null) await gateway.restore(earlier);
  return {
    gateway,
    store,
    engine,
    sampled,
    folder: place,
    restart: async () => {
      gateway.close();
      await store.close(new Map<string, never>([["format", 4 as never]]));
      return openWorld(policy, worldOptions, place);
    },
    close: async () => {
      gateway.close();
      await store.close(new Map<string, never>([["format", 4 as never]]));
    },
  };
}

/**
 * Violations of the invariant of ended sessions: every prompt and action is recorded exactly once,
 * as the engine had it.
 */
export function recordViolations(episode: Episode, sampled: World["sampled"]): string[] {
  const { turns } = episode.trajectory;
  const violations: string[] = [];
  turns.forEach((turn, index) => {
    const prompt = [...turnPrompt(episode.trajectory, index)].join(" ");
    const action = [...turn.sampledTokens].join(" ");
    const times = sampled.filter((one) => [...one.prompt].join(" ") === prompt && [...one.tokens].join(" ") === action);
    if (times.length === 0) violations.push(`Turn ${index}: the engine never saw this prompt and action.`);
  });
  // Throws if a token would be lost or trained twice.
  const { samples, dropped } = episodeSamples(episode);
  const trained = samples.reduce((sum, { lossMask }) => sum + lossMask.reduce((ones, one) => ones + one, 0), 0);
  const left = dropped.reduce((sum, { count }) => sum + count, 0);
  const all = turns.reduce((sum, { sampledTokens }) => sum + sampledTokens.length, 0);
  if (trained + left !== all && episode.reward !== null)
    violations.push(`${trained} trained and ${left} dropped of ${all} tokens.`);
  return violations;
}

export type Answered = {
  readonly status: number;
  readonly json: Record<string, unknown>;
  readonly text: string;
  readonly headers: Readonly<Record<string, string>>;
};

/** Sends a request, reads the whole answer, and reports that it was delivered. */
export async function send(
  gateway: Gateway,
  request: {
    readonly method: string;
    readonly url: string;
    readonly headers: Readonly<Record<string, string>>;
    readonly body: unknown;
    readonly delivers?: boolean;
  },
): Promise<Answered> {
  const { body, delivers = true, ...rest } = request;
  const empty = body === undefined || body === null;
  const answer = await gateway.handle({ ...rest, body: empty ? Buffer.alloc(0) : Buffer.from(JSON.stringify(body)) });
  let text = "";
  if (typeof answer.body === "string") text = answer.body;
  else for await (const part of answer.body) text += part;
  if (delivers) answer.delivered?.();
  let json: Record<string, unknown> = {};
  try {
    json = JSON.parse(text) as Record<string, unknown>;
  } catch {
    // A stream of events.
  }
  return { status: answer.status, headers: answer.headers, json, text };
}

/** Sends a request with a JSON body. */
export function post(
  gateway: Gateway,
  path: string,
  body: unknown,
  {
    key = "s1",
    delivers = true,
    method = "POST",
  }: { readonly key?: string | null; readonly delivers?: boolean; readonly method?: string } = {},
): Promise<Answered> {
  const headers = {
    "content-type": "application/json",
    host: "127.0.0.1",
    ...(key === null ? {} : { authorization: `Bearer ${key}` }),
  };
  return send(gateway, { method, url: path, headers, body, delivers });
}

/** Data of server-sent events, without comments and the end mark. */
export function eventsOf(text: string): unknown[] {
  return text
    .split("\n")
    .filter((line) => line.startsWith("data: ") && line !== "data: [DONE]")
    .map((line): unknown => JSON.parse(line.slice(6)));
}
