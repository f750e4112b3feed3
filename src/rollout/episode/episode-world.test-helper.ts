// A small world for tests of the loop: a counter with a door, a model with given replies, and users
// with given lines.

import {
  AttributedError,
  type Engine,
  type EngineFailureCode,
  type EnvironmentSource,
  type FinishReason,
  type SampleRequest,
} from "../../core/index.ts";
import { createToolCalling, type ToolCallingOptions } from "../../agents/index.ts";
import { defineEnvironment } from "../../environments/index.ts";
import type { Clock } from "../../lib/clock.ts";
import { createQwenRenderer } from "../../renderers/index.ts";
import { thinkingTemplate } from "../../renderers/published-templates.test-helper.ts";
import { createReadableTokenizer } from "../../tokenizers/index.ts";
import { scriptedUsers, type UserStep } from "../../users/index.ts";
import type { EpisodeParts } from "../index.ts";

export const tokenizer = createReadableTokenizer();
const end = "<|im_end|>";

/** A reply of the model: text that ends by itself, text that is cut off, or a fault. */
export type Reply =
  | string
  | { readonly text: string; readonly finish: FinishReason }
  | { readonly fault: EngineFailureCode; readonly retryable: boolean };

export type ScriptedModel = Engine & { readonly requests: SampleRequest[]; readonly prompts: string[]; left(): number };

export function scriptedModel(replies: readonly Reply[]): ScriptedModel {
  const queue = [...replies];
  const requests: SampleRequest[] = [];
  const prompts: string[] = [];
  let version = 0;
  return {
    name: "scripted",
    requests,
    prompts,
    left: () => queue.length,
    close: () => Promise.resolve(),
    sample: (request, options) => {
      requests.push(request);
      prompts.push(tokenizer.decode(request.prompt.view()));
      if (options?.signal?.aborted) return Promise.reject(new Error("aborted before it began"));
      const reply = queue.shift();
      if (reply === undefined) return Promise.reject(new Error("The model was asked once too often."));
      if (typeof reply === "object" && "fault" in reply) {
        const { fault: code, retryable } = reply;
        const failure = { boundary: "engine", code, message: `scripted ${code}`, retryable, cause: null } as const;
        return Promise.reject(new AttributedError(failure));
      }
      const { text, finish } = typeof reply === "string" ? { text: reply + end, finish: "stop" as const } : reply;
      const sampledTokens = tokenizer.encode(text);
      const weights = { dispatch: String(version), reply: String(++version) };
      return Promise.resolve({
        sampledTokens,
        logprobs: Float32Array.from(sampledTokens, () => -0.5),
        finish: { reason: finish, matched: null, raw: null },
        weightSpans: [{ tokenCount: sampledTokens.length, ...weights }],
        usage: { promptTokens: request.prompt.length, completionTokens: sampledTokens.length, cachedTokens: null },
      });
    },
  };
}

export const counter: EnvironmentSource = defineEnvironment({
  name: "counter",
  guidelines: "Count when asked.",
  tools: {
    count: {
      description: "Counts up.",
      parameters: { type: "object", properties: { by: { type: "integer" } }, required: ["by"] },
      run: ({ by }, state) => {
        if (by === 13) throw new Error("unlucky");
        state.count += Number(by);
        return { count: state.count };
      },
    },
    leave: {
      description: "Ends.",
      parameters: { type: "object", properties: {} },
      endsEpisode: true,
      run: () => "bye",
    },
  },
  tasks: { test: [{ instruction: "Have it count to 3.", state: { count: 0 } }] },
  grade: ({ state }) => (state.count === 3 ? 1 : 0),
});

export const task = counter.taskset("test").task(0);

export function count(by: unknown): string {
  return `<tool_call>\n{"name": "count", "arguments": {"by": ${JSON.stringify(by)}}}\n</tool_call>`;
}
export const leave = `<tool_call>\n{"name": "leave", "arguments": {}}\n</tool_call>`;

/** A clock whose time passes only during a sleep. Deadlines never expire. */
export function instantClock(): Clock & { readonly waited: number[] } {
  const waited: number[] = [];
  let now = 0;
  return {
    waited,
    now: () => now,
    after: () => () => {},
    sleep: (ms) => {
      waited.push(ms);
      now += ms;
      return Promise.resolve();
    },
  };
}

export type World = { readonly parts: EpisodeParts; readonly model: ScriptedModel };

export function world(
  replies: readonly Reply[],
  lines: readonly UserStep[],
  options: { readonly family?: string; readonly historyPolicy?: "keep-reasoning" | "branch" } & ToolCallingOptions = {},
): World {
  const { family = "qwen2.5-instruct", historyPolicy, ...strategy } = options;
  const model = scriptedModel(replies);
  const renderer = createQwenRenderer({
    tokenizer,
    family,
    ...(family === "qwen3" ? { chatTemplate: thinkingTemplate } : {}),
    ...(historyPolicy === undefined ? {} : { historyPolicy }),
  });
  const user = scriptedUsers(lines);
  return {
    model,
    parts: { environment: counter, user, engine: model, renderer, strategy: createToolCalling(strategy) },
  };
}
