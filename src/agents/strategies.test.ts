// The strategies in the real loop, in both modes: with an engine and every native renderer, and
// with a model behind an API. The bookshop's expert and the gold actions of τ-bench retail act as
// policies.

import { readFile } from "node:fs/promises";
import fc from "fast-check";
import { describe, expect, it } from "vitest";

import { chatAgent, textReply, type ChatMessage, type ChatModel } from "../chat-models/index.ts";
import { sharedFolder } from "../../tests/conformance/shared-folder.ts";
import { type AgentStrategy, type Episode, freeUsage, type Message, type Renderer } from "../core/index.ts";
import { createScriptedEngine } from "../engines/scripted/index.ts";
import { bookshopSource, expertAction } from "../environments/bookshop/index.ts";
import { tauBenchSource } from "../environments/tau-bench/index.ts";
import { reasoningParser, toolCallParser } from "../parsers/index.ts";
import { episodeSamples, runChatEpisode, runEpisode } from "../rollout/index.ts";
import { rendererFamily, rendererFor } from "../renderers/index.ts";
import { byteTokenizer } from "../renderers/marker-tokenizer.test-helper.ts";
import { publishedRenderer, testedFamilies, thinkingTemplate } from "../renderers/published-templates.test-helper.ts";
import { createReadableTokenizer, loadModelFolder } from "../tokenizers/index.ts";
import { conservationViolations } from "../trajectories/index.ts";
import { agendaUser, scriptedUser } from "../users/index.ts";
import { agentFactory, strategyNames } from "./agent-factory.ts";

/** One move: a call as the JSON of an action, or text for the user. */
type Move = { readonly call: string } | { readonly words: string };

const end = "<|im_end|>";
const isText = (strategy: AgentStrategy) => strategy.name === "act" || strategy.name === "react";
const make = (strategy: string) =>
  agentFactory({ strategy, displays: ["user: Hi\nassistant: Hello", "user: Bye\nassistant: Bye"], displayCount: 2 });

/** Writes a move in the format of a strategy, for its prompt's template. */
function write(move: Move, strategy: AgentStrategy): string {
  if (!isText(strategy)) return "call" in move ? `<tool_call>\n${move.call}\n</tool_call>` : move.words;
  const respond = "words" in move ? JSON.stringify({ name: "respond", arguments: { content: move.words } }) : move.call;
  return strategy.name === "react" ? `Thought:\nOne line.\nAction:\n${respond}` : `Action:\n${respond}`;
}

/** The expert's move in a conversation, which it reads in ChatML with Qwen's format of calls. */
function expertMove(messages: readonly { readonly role: string; readonly content: string }[]): Move {
  const blocks = messages.map(({ role, content }) => `<|im_start|>${role}\n${content}${end}\n`).join("");
  const { text } = expertAction(`${blocks}<|im_start|>assistant\n`);
  const call = /<tool_call>\n([^]*)\n<\/tool_call>/.exec(text)?.[1];
  return call === undefined ? { words: text } : { call };
}

/** Converts messages of act and react to the form that the expert reads. */
function asExpertReads({ role, content }: { readonly role: string; readonly content: string }) {
  if (role === "user" && content.startsWith("API output: ")) {
    return { role, content: `<tool_response>\n${content.slice("API output: ".length)}\n</tool_response>` };
  }
  if (role !== "assistant" || !content.includes("Action:\n")) return { role, content };
  const json = content.slice(content.indexOf("Action:\n") + "Action:\n".length);
  const action = JSON.parse(json) as { readonly name: string; readonly arguments: { readonly content?: string } };
  if (action.name === "respond") return { role, content: action.arguments.content ?? "" };
  return { role, content: `<tool_call>\n${json}\n</tool_call>` };
}

/** The messages of a prompt in ChatML. */
function promptMessages(prompt: string) {
  return [...prompt.matchAll(/<\|im_start\|>(\w+)\n([^]*?)<\|im_end\|>/g)].map(([, role = "", content = ""]) =>
    asExpertReads({ role, content }),
  );
}

/** The messages that an API model is shown. */
function shownMessages(messages: readonly ChatMessage[]) {
  return messages.map((message) => {
    const { role, content } = message;
    if (role === "tool") return { role: "user", content: `<tool_response>\n${content}\n</tool_response>` };
    const [call] = "toolCalls" in message ? message.toolCalls : [];
    if (call === undefined) return asExpertReads({ role, content });
    const json = `{"name": ${JSON.stringify(call.name)}, "arguments": ${call.argumentsText}}`;
    return { role, content: `<tool_call>\n${json}\n</tool_call>` };
  });
}

/**
 * A model behind an API that makes the given moves: calls in the API's own form unless the strategy
 * writes them as text.
 */
function movingModel(strategy: AgentStrategy, moveOn: (messages: readonly ChatMessage[]) => Move): ChatModel {
  return {
    name: "moving",
    complete: (messages) => {
      const move = moveOn(messages);
      if ("words" in move || isText(strategy)) return Promise.resolve(textReply(write(move, strategy), freeUsage));
      const { name, arguments: given } = JSON.parse(move.call) as { readonly name: string; readonly arguments: object };
      const toolCalls = [{ id: null, name, argumentsText: JSON.stringify(given) }];
      return Promise.resolve({ ...textReply("", freeUsage), toolCalls });
    },
  };
}

/**
 * Checks that the record is complete, and that prompts equal the template's output for the messages
 * so far: every third prompt, and the last.
 */
function checkTokens(
  episode: Episode,
  prompts: readonly string[],
  renderer: Renderer,
  tools: Parameters<Renderer["renderPrompt"]>[1],
): void {
  const samples = episodeSamples(episode);
  expect(conservationViolations(episode.trajectory, samples)).toEqual([]);
  expect(samples.samples.length).toBeGreaterThan(0);
  expect(prompts.length).toBe(episode.trajectory.turns.length);
  if (renderer.historyPolicy === "keep-reasoning") return;
  prompts.forEach((prompt, turn) => {
    if (turn % 3 !== 0 && turn !== prompts.length - 1) return;
    expect(prompt).toBe(renderer.renderPrompt(episode.messages.slice(0, 2 + 2 * turn), tools).text);
  });
}

describe.each(strategyNames)("%s in the bookshop", (name) => {
  const strategy = make(name);
  const environment = bookshopSource();
  const tasks = environment.taskset("test");
  const indexes = Array.from({ length: 7 }, (_, index) => index);

  const policies = [
    ["qwen2.5-instruct", "branch"],
    ["qwen3-instruct-2507", "branch"],
    ["qwen3-rev2", "branch"],
    ["qwen3", "branch"],
    ["qwen3", "keep-reasoning"],
  ] as const;
  it.each(policies.filter(([family]) => testedFamilies.includes(family)))(
    "is played to the end with %s and %s, token by token",
    async (family, historyPolicy) => {
      const tokenizer = createReadableTokenizer();
      const renderer = publishedRenderer(family, tokenizer, { historyPolicy });
      for (const index of indexes) {
        const prompts: string[] = [];
        const engine = createScriptedEngine({
          tokenizer,
          script: ({ prompt }) => {
            const text = tokenizer.decode(prompt.view());
            prompts.push(text);
            return write(expertMove(promptMessages(text)), strategy) + end;
          },
        });
        const parts = { environment, user: agendaUser(), engine, renderer, strategy };
        const episode = await runEpisode(tasks.task(index), parts, { seed: index });
        expect([index, episode.reward, episode.problems]).toEqual([index, 1, []]);
        checkTokens(episode, prompts, renderer, isText(strategy) ? [] : environment.open(tasks.task(index)).tools);
      }
    },
  );

  it("is played to the end by a model behind an API", async () => {
    const agent = chatAgent({ chat: movingModel(strategy, (messages) => expertMove(shownMessages(messages))) });
    for (const index of indexes) {
      const parts = { environment, user: agendaUser(), agent, strategy };
      const episode = await runChatEpisode(tasks.task(index), parts, { seed: index });
      expect([index, episode.reward, episode.problems]).toEqual([index, 1, []]);
    }
  });
});

describe.each(testedFamilies)("with the renderer of %s", async (name) => {
  const family = rendererFamily(name);
  const reasoningMarkers = family.reasoningParser === null ? [] : reasoningParser(family.reasoningParser).markers;
  const tokenizer = await byteTokenizer([
    ...[family.startToken, ...family.stopTokens, ...[...family.specialTokens.values()].map(String)],
    ...[...toolCallParser(family.toolCallParser).markers, ...reasoningMarkers],
  ]);
  const environment = bookshopSource();

  it.each(["act", "react"])("%s is played to the end, token by token", async (strategyName) => {
    const renderer = publishedRenderer(name, tokenizer, { historyPolicy: "branch" });
    // Some families write speech in a separate channel, or after the end of a thought.
    const before = ["", "Hm.</think>", "Hm.</mm:think>", "<|channel|>final<|message|>"].find((start) => {
      const sampled = [...tokenizer.encode(`${start}words`), renderer.stopTokenIds[0]!];
      return renderer.parseAction(Uint32Array.from(sampled), { tools: [], turn: 0 }).content === "words";
    });
    for (const index of [9]) {
      const strategy = make(strategyName);
      const conversation: Message[] = [];
      const told: AgentStrategy = {
        ...strategy,
        open: (input) => {
          const opening = strategy.open(input);
          conversation.push(...opening.messages);
          return opening;
        },
        observe: (decision, observation) => {
          const message = strategy.observe(decision, observation);
          conversation.push(message);
          return message;
        },
      };
      const prompts: string[] = [];
      const engine = createScriptedEngine({
        script: ({ prompt }) => {
          prompts.push(tokenizer.decode(prompt.view()));
          const text = write(expertMove(conversation.map(asExpertReads)), strategy);
          conversation.push({ role: "assistant", content: text, reasoning: null, toolCalls: [] });
          return [...tokenizer.encode(`${before}${text}`), renderer.stopTokenIds[0]!];
        },
      });
      const task = environment.taskset("test").task(index);
      const episode = await runEpisode(task, { environment, user: agendaUser(), engine, renderer, strategy: told });
      expect([index, episode.failure, episode.reward, episode.problems]).toEqual([index, null, 1, []]);
      checkTokens(episode, prompts, renderer, []);
    }
  });
});

it.each(strategyNames)("%s loses no token and ends in no fault, whatever is sampled", async (name) => {
  const tokenizer = createReadableTokenizer();
  const environment = bookshopSource();
  const renderer = rendererFor("qwen3", tokenizer, { chatTemplate: thinkingTemplate, historyPolicy: "branch" });
  const marks = [
    "",
    "Action:",
    "<think>\n",
    "</think>\n\n",
    "<tool_call>\n",
    "\n</tool_call>",
    "null",
    '{"name": "respond"}',
  ];
  const action = fc.array(fc.oneof(fc.constantFrom(...marks), fc.json(), fc.string({ unit: "grapheme" })), {
    maxLength: 5,
  });
  const sampled = fc.tuple(action, fc.constantFrom(end, end, "")).map(([parts, last]) => parts.join("") + last);
  await fc.assert(
    fc.asyncProperty(fc.array(sampled, { minLength: 1, maxLength: 4 }), async (texts) => {
      const engine = createScriptedEngine({ tokenizer, script: (_, { call }) => texts[call % texts.length] || "-" });
      const parts = { environment, user: agendaUser(), engine, renderer, strategy: make(name) };
      const episode = await runEpisode(environment.taskset("test").task(3), parts, { limits: { maxTurns: 5 } });
      expect(episode.failure).toBeNull();
      expect(conservationViolations(episode.trajectory, episodeSamples(episode))).toEqual([]);
    }),
    { seed: 2, numRuns: 40 },
  );
});

const shared = sharedFolder();

type Gold = {
  readonly actions: readonly { readonly name: string; readonly kwargs: unknown }[];
  readonly outputs: readonly string[];
};
type Golden = { readonly split: string; readonly reward: number; readonly reward_when_outputs_said?: number };

describe.skipIf(shared === null)("in tau-bench retail (skipped without ../shared/tau-bench)", () => {
  /** Moves of the gold solution: text with the outputs first, then the gold actions, then text. */
  const goldMove = ({ actions, outputs }: Gold, turn: number): Move => {
    if (turn === 0) return { words: `Hello. ${outputs.join(", ")}` };
    const action = actions[turn - 1];
    return action === undefined
      ? { words: "Good-bye." }
      : { call: JSON.stringify({ name: action.name, arguments: action.kwargs }) };
  };

  it.each(strategyNames)("%s earns the rewards of the reference with gold actions, both ways", async (name) => {
    const strategy = make(name);
    const tasks = JSON.parse(await readFile(`${shared}/tau-bench/retail/tasks_test.json`, "utf8")) as Gold[];
    const lines = (await readFile(`${shared}/tau-bench/goldens/retail/tasks.jsonl`, "utf8")).trim().split("\n");
    const goldens = lines.map((line) => JSON.parse(line) as Golden).filter(({ split }) => split === "test");
    const { tokenizer } = await loadModelFolder(`${shared}/models/qwen2.5-instruct`);
    const renderer = publishedRenderer("qwen2.5-instruct", tokenizer);
    const environment = await tauBenchSource({ domain: "retail", folder: `${shared}/tau-bench` });
    const taskset = environment.taskset("test");
    const user = { name: "scripted", create: () => scriptedUser(["Hello.", "Please go on.", "###STOP###"]) };

    for (let index = 0; index < taskset.size; index += 9) {
      const gold = tasks[index]!;
      const golden = goldens[index]!;
      const wanted = [index, golden.reward_when_outputs_said ?? golden.reward, null];
      const prompts: string[] = [];
      const engine = createScriptedEngine({
        tokenizer,
        script: ({ prompt }, { call }) => {
          prompts.push(tokenizer.decode(prompt.view()));
          return write(goldMove(gold, call), strategy) + end;
        },
      });
      const trained = await runEpisode(taskset.task(index), { environment, user, engine, renderer, strategy }, {});
      expect([index, trained.reward, trained.failure]).toEqual(wanted);
      const tools = isText(strategy) ? [] : environment.open(taskset.task(index)).tools;
      checkTokens(trained, prompts, renderer, tools);

      let turn = 0;
      const agent = chatAgent({ chat: movingModel(strategy, () => goldMove(gold, turn++)) });
      const evaluated = await runChatEpisode(taskset.task(index), { environment, user, agent, strategy });
      expect([index, evaluated.reward, evaluated.failure]).toEqual(wanted);
    }
  });
});
