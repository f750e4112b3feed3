// Stop strings with servers that detect them: the answer of the client, and the record.

import { afterEach, expect, test } from "vitest";
import type { Engine } from "../core/index.ts";
import { createSglangEngine } from "../engines/sglang/index.ts";
import { createVllmEngine } from "../engines/vllm/index.ts";
import { createSglangFront, createVllmFront, plainLogprob, type Sampler } from "../testing/index.ts";
import { openWorld, recordViolations, tokenizer } from "./gateway-world.test-helper.ts";
import { say } from "./speakers.test-helper.ts";

const said = "Thought: look.\nAction: go\nObservation: it is sunny.";
const ids = tokenizer.encode(`${said}<|im_end|>`);

/** The sampler knows no stop string: its server ends it. */
const sampler: Sampler = {
  sample: async (_request, { onTokens }) => {
    for (const [at, id] of ids.entries()) if (onTokens([id], [plainLogprob(at)]) === "stop") break;
    return { ids, logprobs: [...ids.keys()].map((at) => plainLogprob(at)), finish: "end", cachedTokens: 0, weightVersion: null }; // prettier-ignore
  },
};

const cleanups: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).toReversed()) await cleanup();
});

const servers: Readonly<Record<string, () => Promise<Engine>>> = {
  sglang: async () => {
    const listener = await createSglangFront({ sampler, tokenizer }).listen();
    cleanups.push(() => listener.close());
    return createSglangEngine({ url: listener.url });
  },
  "vllm, generate": async () => vllm("generate"),
  "vllm, completions": async () => vllm("completions"),
};

async function vllm(endpoint: "generate" | "completions"): Promise<Engine> {
  const listener = await createVllmFront({ sampler, tokenizer }).listen();
  cleanups.push(() => listener.close());
  return createVllmEngine({ url: listener.url, endpoint, onWarning: () => undefined });
}

test.each(Object.keys(servers).flatMap((name) => [false, true].map((stream) => ({ name, stream }))))(
  "$name ends at a stop string, which its client never sees, streamed: $stream",
  async ({ name, stream }) => {
    const engine = await servers[name]!();
    const world = await openWorld(() => "unused");
    world.engine.sample = async (request, options) => {
      const prompt = request.prompt.view().slice();
      const result = await engine.sample(request, options);
      world.sampled.push({ prompt, tokens: result.sampledTokens, seed: null, constraint: null });
      return result;
    };
    const fields = { stop_sequences: ["\nObservation:"] };
    const heard = await say(world, "messages", [{ role: "user", text: "a" }], { stream, fields });
    expect(heard).toMatchObject({ text: "Thought: look.\nAction: go", ending: "stop_sequence", stopSequence: "\nObservation:" }); // prettier-ignore
    const episode = await world.gateway.end("s1");
    const [turn] = episode.trajectory.turns;
    expect(tokenizer.decode(turn!.sampledTokens)).toBe(said.slice(0, said.indexOf(" it is")));
    expect(turn!.logprobs).toHaveLength(turn!.sampledTokens.length);
    expect(recordViolations(episode, world.sampled)).toEqual([]);
    await engine.close();
    await world.close();
  },
);
