// A ranking: one judge sees all conversations of a group and gives each a score from 0 to 1, so that it compares instead of
// measuring. What they have in common is shown once. Where one stands among the others is drawn from a seed by the caller: a
// judge's preference for a place then follows no place in the group.

import type { Episode, GroupRanker, Judge, Ranking } from "../core/index.ts";
import { formText, messagesOf, transcriptOf, answerSchema, readScores } from "./judge-prompt.ts";

const task = `You are shown several conversations between users and an agent that works with tools. All began with the same task; the agent went its own way in each. Compare them by how well the agent reached what the user wanted within its guidelines, and score each from 0 to 1:
- The scores are relative: the distances between them say how much better one is than another.
- Equally good conversations have equal scores.
- One that reaches the goal always scores higher than one that does not; among those that reach it, the more direct, correct and honest one scores higher.
- The order in which they are shown means nothing.`;

const form = `Answer with one JSON object and nothing else: for each conversation its number as a string, with "reason" (one or two sentences) and "score" (a number from 0 to 1).`;

/** A ranking with the judge that is asked. */
export function groupRanker(ranking: Ranking, judge: Judge): GroupRanker {
  const { name, weight, instructions } = ranking;
  return {
    name,
    weight,
    judge,
    question: (episodes) => {
      const numbers = episodes.map((_, place) => String(place + 1));
      const items = new Map(numbers.map((number) => [number, [0, 1] as const]));
      const transcripts = episodes.map((episode) => transcriptOf(episode, ranking));
      const shared = commonLength(transcripts);
      const first = episodes[0]!;
      const parts = transcripts.map(
        (lines, place) => [`Conversation ${numbers[place]}, after that`, lines.slice(shared).join("\n")] as const,
      );
      return {
        grader: name,
        schema: answerSchema(items),
        messages: messagesOf(
          name,
          {
            system: [task, instructions, formText, form],
            parts: [
              ["What the agent was told", systemText(first)],
              ["What the user was told to want, which the agent did not see", first.task.instruction ?? ""],
              ["How all conversations begin", transcripts[0]!.slice(0, shared).join("\n")],
              ...parts,
            ],
          },
          ranking,
        ),
        read: (answer) => {
          const scores = readScores(answer, items);
          return numbers.map((number) => {
            const { score, reason } = scores.get(number)!;
            return { value: score, metrics: {}, log: `${name} ${score}: ${reason}` };
          });
        },
      };
    },
  };
}

function systemText({ messages }: Episode): string {
  return messages.find(({ role }) => role === "system")?.content ?? "";
}

/** Lines at the beginning that all have. The last line of each stays its own. */
function commonLength(transcripts: readonly (readonly string[])[]): number {
  const first = transcripts[0]!;
  const most = Math.min(...transcripts.map(({ length }) => length)) - 1;
  let length = 0;
  while (length < most && transcripts.every((lines) => lines[length] === first[length])) length++;
  return length;
}
