// An external program that works like the built-in loop gets the same episode as the built-in loop:
// the same prompts, seeds and tokens. `npm run verify -- gateway-training` shows it with a model
// that learns, and a program in its own process.

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { createToolCalling } from "../agents/index.ts";
import type { Episode, Task, Turn } from "../core/index.ts";
import { bookshopSource, createExpertEngine } from "../environments/bookshop/index.ts";
import { deriveSeed } from "../lib/random.ts";
import { fromPlain, type JsonObject, toPlain } from "../python-semantics/json/index.ts";
import { createQwenRenderer } from "../renderers/index.ts";
import { runEpisode } from "../rollout/index.ts";
import { createFileRunStore } from "../store/index.ts";
import { agendaUser } from "../users/index.ts";
import { tokenizer } from "./gateway-world.test-helper.ts";
import { createGateway, type Gateway } from "./index.ts";

type Call = { readonly id: string; readonly function: { readonly name: string; readonly arguments: string } };
type Message = { readonly content: string | null; readonly tool_calls?: readonly Call[] };

const environment = bookshopSource();
const tasks = environment.taskset("train");
const sampling = { temperature: 1, maxNewTokens: 256 };
/**
 * The program receives no format errors: output that is not parsed as a call is text for its user.
 */
const strategy = createToolCalling({ problemPolicy: { "not-json": "utterance", "unknown-tool": "utterance" } });
const renderer = createQwenRenderer({ tokenizer, family: "qwen2.5-instruct" });

/** A program: one task with its tools and its user; one call per turn. */
async function play(gateway: Gateway, { key, task, seed }: { key: string; task: Task; seed: number }): Promise<number> {
  const world = environment.open(task);
  const user = agendaUser().create(task, { seed });
  const opening = await user.open();
  const messages: unknown[] = [
    { role: "system", content: world.guidelines },
    { role: "user", content: opening.type === "hang-up" ? "" : opening.text },
  ];
  const tools = world.tools.map(({ definition }) => toPlain(definition));
  for (;;) {
    const answer = await gateway.fetch("http://gateway/v1/chat/completions", {
      method: "POST",
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
      body: JSON.stringify({ model: "policy", messages, tools }),
    });
    expect(answer.status).toBe(200);
    const { message } = ((await answer.json()) as { choices: [{ message: Message }] }).choices[0];
    messages.push(message);
    const [call] = message.tool_calls ?? [];
    if (call === undefined) {
      const said = message.content ?? "";
      await world.receiveUtterance?.(said);
      const line = await user.reply(said);
      if (line.type === "hang-up") break;
      messages.push({ role: "user", content: line.text });
    } else {
      const given = fromPlain(JSON.parse(call.function.arguments)) as JsonObject;
      const result = await world.call({ name: call.function.name, arguments: given });
      if (result.endsEpisode) break;
      messages.push({ role: "tool", tool_call_id: call.id, content: result.text });
    }
  }
  return (await world.grade({ outcome: "completed" })).reward;
}

const tokensOf = ({ trajectory }: Episode): unknown =>
  trajectory.turns.map(({ observationTokens, sampledTokens, logprobs, finish }: Turn) => ({
    observationTokens,
    sampledTokens,
    logprobs,
    finish,
  }));

test("a session whose turns are seeded is the built-in loop's episode of this seed, token for token", async () => {
  // Breaks rules and forgets, depending on the seed of each turn.
  const engine = createExpertEngine({ tokenizer, noise: 0.3 });
  const folder = await mkdtemp(join(tmpdir(), "trainable-agents-gateway-"));
  const manifest = new Map([["format", 4 as never]]);
  const store = createFileRunStore(folder);
  await store.begin(manifest);
  const gateway = createGateway({ engine, renderer, store }, { sampling, episode: { seedTurns: true } });
  const parts = { environment, user: agendaUser(), engine, renderer, strategy };
  const rewards = new Set<number | null>();
  for (let index = 0; index < 24; index++) {
    const [task, seed] = [tasks.task(index), index + 100];
    const episode = await runEpisode(task, parts, { seed, seedTurns: true, sampling });
    const { id, key } = await gateway.open({ task: task.id, seed });
    const reward = await play(gateway, { key, task, seed: deriveSeed(seed, "user") });
    await gateway.reward(id, { reward, metrics: {}, log: "", info: new Map() });
    const session = await gateway.end(id);
    expect(tokensOf(session)).toEqual(tokensOf(episode));
    expect(session.reward).toBe(episode.reward);
    rewards.add(session.reward);
  }
  expect(rewards).toEqual(new Set([0, 1]));
  gateway.close();
  await store.close(manifest);
  await rm(folder, { recursive: true });
});
