// The preset "slime-tau": slime's tau-bench example as it is, for comparison. Text prompts rendered with tools every turn,
// text-delta tokens, first call only, abort on whatever goes wrong. Not the loop of this project (`run-episode.ts`), and
// nothing here is shared with it. Everything arrives as values; the oracle is the set of records made by the Python original.

import { PythonError } from "../../python-semantics/index.ts";
import { callToAction, respondAction } from "./call-to-action.ts";
import {
  type SlimeTauMessage,
  type SlimeTauParse,
  type SlimeTauResult,
  type SlimeTauStatus,
  templateMessage,
} from "./interaction-result.ts";
import { readReply } from "./read-reply.ts";
import type { SlimeTauEnvironment, SlimeTauParts } from "./slime-tau-parts.ts";
import { tokenDelta } from "./token-delta.ts";

export type SlimeTauOptions = {
  /** Where slime's router listens; `null` fails as the seed's own default does (it reads a dict by attribute). */
  readonly rolloutArgs: { readonly sglangRouterIp: string; readonly sglangRouterPort: number } | null;
  /** Default: {@link slimeTauSampling} with the given temperature. */
  readonly samplingParams?: Readonly<Record<string, unknown>> | null;
  /** Of the default sampling. Default: 0. */
  readonly temperature?: number;
  /** Default: `null`, drawn by the environment. */
  readonly taskIndex?: number | null;
  /** Default: 30. */
  readonly maxSteps?: number;
  /** The sentence of the chat template and what stands in its place. Every occurrence is replaced, in anybody's words. */
  readonly toolInstruction: { readonly replaces: string; readonly instruction: string };
};

/** The seed's own sampling when none is given. */
export const slimeTauSampling = Object.freeze({ temperature: 0, max_new_tokens: 512, top_p: 0.9, top_k: 50 });

/**
 * Plays one episode as the seed does. Rejects with a `PythonError` (or with what `post` rejected with) where the seed's
 * `asolve` raises; everything else ends in a result.
 */
export async function runSlimeTau(parts: SlimeTauParts, options: SlimeTauOptions): Promise<SlimeTauResult> {
  if (options.rolloutArgs === null) {
    throw new PythonError("AttributeError", "'dict' object has no attribute 'sglang_router_ip'");
  }
  const { sglangRouterIp, sglangRouterPort } = options.rolloutArgs;
  const url = `http://${sglangRouterIp}:${sglangRouterPort}/generate`;
  const sampling = options.samplingParams ?? { ...slimeTauSampling, temperature: options.temperature ?? 0 };
  const { replaces, instruction } = options.toolInstruction;

  const start = await parts.environment.reset(options.taskIndex ?? null);
  let info = start.info;
  const messages: SlimeTauMessage[] = [
    { role: "system", content: parts.wiki },
    { role: "user", content: start.observation },
  ];
  const rendered = messages.map(templateMessage);
  const promptText = (): string =>
    parts
      .renderText({ messages: [...rendered], tools: parts.tools, addGenerationPrompt: true })
      .replaceAll(replaces, () => instruction);
  const prompt = promptText();
  const promptTokens = parts.tokenizer.encode(prompt);
  const deltas: Uint32Array[] = [];
  const lossMask: number[] = [];
  let reward = 0;
  let done: boolean | null = null;

  /** Adds a message to history, tokens and mask. */
  const add = (message: SlimeTauMessage): void => {
    messages.push(message);
    rendered.push(templateMessage(message));
    const { tokens, mask } = tokenDelta(rendered, parts);
    deltas.push(tokens);
    for (let place = 0; place < tokens.length; place++) lossMask.push(mask);
  };
  const finish = (status: SlimeTauStatus): SlimeTauResult => ({
    prompt,
    reward,
    messages,
    info,
    response: messages.flatMap(({ role, content }) => (role === "assistant" ? [content] : [])).join(""),
    lossMask,
    tokens: concatenate([promptTokens, ...deltas]),
    responseLength: lossMask.length,
    status,
    tokenAccounting: "text-delta",
  });

  for (let step = 0; step < (options.maxSteps ?? 30); step++) {
    const text = step === 0 ? prompt : promptText();
    const reply = readReply(await parts.post(url, { text, sampling_params: sampling }));
    if (reply.isAborted) return finish("aborted");
    let parse: SlimeTauParse;
    try {
      parse = parts.parse(reply.text);
    } catch {
      return finish("aborted");
    }
    if (!parse.success) return finish("aborted");
    add({ role: "assistant", content: reply.text });
    const action = callToAction(parse.parsedResult);
    let answer: Awaited<ReturnType<SlimeTauEnvironment["step"]>>;
    try {
      answer = await parts.environment.step(action);
    } catch {
      return finish("aborted");
    }
    const { observation } = answer;
    add(
      action.name === respondAction
        ? { role: "user", content: observation }
        : { role: "tool", name: action.name, content: observation },
    );
    reward = answer.reward;
    info = new Map([...info, ...answer.info]);
    done = answer.done;
    if (done) return finish("completed");
  }
  if (done === null) throw new PythonError("UnboundLocalError", "no step was permitted, so there is no last response.");
  return finish("truncated");
}

function concatenate(parts: readonly Uint32Array[]): Uint32Array {
  const whole = new Uint32Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}
