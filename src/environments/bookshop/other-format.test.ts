// An agent in the real loop that writes its calls as bare JSON, as small models do regardless of
// their template: it reads the expected format and earns the reward, or, in repair mode, its calls
// are carried out.

import { expect, test } from "vitest";

import { agentFactory } from "../../agents/index.ts";
import type { Episode } from "../../core/index.ts";
import { rendererFor } from "../../renderers/index.ts";
import { runEpisode } from "../../rollout/index.ts";
import { createReadableTokenizer } from "../../tokenizers/index.ts";
import { agendaUser } from "../../users/index.ts";
import { bookshopSource, createExpertEngine, expertAction } from "./index.ts";

const tokenizer = createReadableTokenizer();
const environment = bookshopSource();

const start = "<|im_start|>assistant\n";
const [opening, closing] = ["<tool_call>\n", "\n</tool_call>"];
const isBare = (answer: string): boolean => answer.startsWith('{"name"');

async function run(index: number, { repair }: { readonly repair: boolean }): Promise<Episode> {
  /** The expert's intended action, with note and tags, by the bare JSON that was written. */
  const meant = new Map<string, string>();
  /**
   * The prompt as if the expert had written its own format. Turns whose calls were not carried out
   * are removed with their answers.
   */
  const asExpertSees = (prompt: string): string => {
    const [head = "", ...answers] = prompt.split(start);
    const seen = repair ? answers : answers.filter((answer) => !isBare(answer));
    const asMeant = (answer: string): string => {
      const [json = "", ...rest] = answer.split("<|im_end|>");
      return [meant.get(json) ?? json, ...rest].join("<|im_end|>");
    };
    return [head, ...seen.map(asMeant)].join(start);
  };
  const engine = createExpertEngine({
    tokenizer,
    act: (prompt, options) => {
      const { text, probability } = expertAction(asExpertSees(prompt), options);
      const at = text.indexOf(opening);
      const isTold = !repair && prompt.includes("Write a call like this:\n<tool_call>");
      if (at === -1 || isTold) return { text, probability };
      const bare = text.slice(at + opening.length, -closing.length);
      meant.set(bare, text);
      return { text: bare, probability };
    },
  });
  const renderer = rendererFor("qwen2.5-instruct", tokenizer, { repair });
  const parts = { environment, user: agendaUser(), engine, renderer, strategy: agentFactory() };
  return runEpisode(environment.taskset("validation").task(index), parts, { seed: index, seedTurns: true });
}

test.each([0, 1, 2, 3, 4])(
  "task %i: the agent reads its own format, writes it from then on and is rewarded",
  async (index) => {
    const episode = await run(index, { repair: false });
    expect(episode).toMatchObject({ reward: 1, failure: null });
    expect(episode.problems).toMatchObject([{ code: "other-format" }]);
    const feedback = episode.messages.filter(({ role, content }) => role === "tool" && content.startsWith("Error: "));
    expect(feedback).toHaveLength(1);
    expect(feedback[0]!.content).toMatch(
      /^Error: the call of "(\w+)" was not carried out and nobody read your message\. It was written as bare JSON, which is not read here\. Write a call like this:\n<tool_call>\n\{"name": "\1", "arguments": \{.*\}\}\n<\/tool_call>$/,
    );
  },
);

test.each([0, 1, 2, 3, 4])("task %i: in repair mode every such call is carried out and counted", async (index) => {
  const episode = await run(index, { repair: true });
  expect(episode).toMatchObject({ reward: 1, failure: null });
  const calls = episode.events.filter(({ type }) => type === "tool-result");
  expect(calls.length).toBeGreaterThan(0);
  expect(episode.problems.map(({ code }) => code)).toEqual(calls.map(() => "repaired"));
});
