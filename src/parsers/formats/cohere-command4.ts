// Reasoning of Cohere's Command 4. The prompt opens the thinking; behind it stands an answer between two tags, which are dropped, or a
// section of calls, which stays for its parser. Text that is neither is not shown.

import type { ReasoningParser, ReasoningStep } from "../reasoning-parser.ts";
import { beginningOfOne } from "../text-pieces.ts";

const thought = "<|START_THINKING|>";
const thoughtEnd = "<|END_THINKING|>";
const answer = "<|START_TEXT|>";
const answerEnd = "<|END_TEXT|>";
const calls = "<|START_ACTION|>";

export const cohereCommand4Reasoning: ReasoningParser = {
  name: "cohere_command4",
  markers: [thought, thoughtEnd],
  hasTags: true,
  split: (text) => {
    // Without thinking the answer comes at once, or the calls.
    const tag = [thoughtEnd, answer, calls].find((candidate) => text.includes(candidate));
    const end = tag === undefined ? text.length : text.indexOf(tag);
    const reasoning = text.slice(0, end);
    return {
      reasoning: reasoning.startsWith(thought) ? reasoning.slice(thought.length) : reasoning,
      normalText: answerIn(text.slice(tag === thoughtEnd ? end + thoughtEnd.length : end)),
    };
  },
  startSplitting: () => reasoningStep(),
};

function answerIn(text: string): string {
  const start = text.indexOf(answer);
  if (start === -1) return text.includes(calls) ? text : "";
  const inside = text.slice(start + answer.length);
  const end = inside.indexOf(answerEnd);
  return end === -1 ? inside : inside.slice(0, end);
}

/** Text before any tag is reasoning; what follows is known at the end only. */
function reasoningStep(): ReasoningStep {
  let held = "";
  let state: "beginning" | "reasoning" | "unknown" = "beginning";
  return {
    push: (piece) => {
      if (state === "unknown") return { reasoning: "", rest: "" };
      held += piece;
      if (state === "beginning") {
        if (thought.startsWith(held) && held.length < thought.length) return { reasoning: "", rest: "" };
        if (held.startsWith(thought)) held = held.slice(thought.length);
        state = "reasoning";
      }
      const tag = held.indexOf("<|");
      const sure = tag === -1 ? held.length - beginningOfOne(held, held.length, ["<|"]) : tag;
      if (tag !== -1) state = "unknown";
      const reasoning = held.slice(0, sure);
      held = held.slice(sure);
      return { reasoning, rest: "" };
    },
  };
}
