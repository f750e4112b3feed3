// A rubric: criteria by which a model scores one conversation, and the score as their weighted
// mean. It is data, so that it can be part of a module, of a JSON file or of the definition of an
// environment; the run chooses the judge.

import { z } from "zod";
import {
  ConfigurationError,
  type Episode,
  type EpisodeGrader,
  type GroupRanker,
  type Judge,
  type Ranking,
  type Rubric,
} from "../core/index.ts";
import { answerSchema, formText, messagesOf, readScores, transcriptOf } from "./judge-prompt.ts";

export type CriterionDefinition = {
  /** Name of letters, digits, "-" and "_", a letter first; the metric is `<rubric>.<name>`. */
  readonly name: string;
  /** Description of what earns each score, for the judge. */
  readonly description: string;
  /** Share of the score, compared with the other criteria. Above 0. @default 1 */
  readonly weight?: number;
  /** Worst and best score. @default [1, 5] */
  readonly scale?: readonly [worst: number, best: number];
};

/** Options that rubrics and rankings share. */
export type JudgedDefinition = {
  /**
   * Share of the reward, compared with the other graders. At least 0; 0 for a metric only.
   * @default 1
   */
  readonly weight?: number;
  /** Further text for the judge. @default none */
  readonly instructions?: string;
  /** Maximum number of characters of one tool result that the judge sees. @default 2000 */
  readonly maxResultCharacters?: number;
  /**
   * Maximum number of characters of a question; a longer one is a failure at boundary "grader".
   * @default 400000
   */
  readonly maxCharacters?: number;
};

export type RubricDefinition = JudgedDefinition & {
  /** Name of its metric; follows the rules for names of criteria. @default "rubric" */
  readonly name?: string;
  readonly criteria: readonly CriterionDefinition[];
};

const nameSchema = z
  .string()
  .regex(/^[A-Za-z][A-Za-z0-9_-]{0,63}$/, 'letters, digits, "-" and "_", a letter first, 64 at most');
const positive = z.number().positive("a number above 0");
const judged = {
  weight: z.number().min(0, "a number of at least 0").default(1),
  instructions: z.string().default(""),
  maxResultCharacters: z.int().min(1).default(2000),
  maxCharacters: z.int().min(1000).default(400_000),
};
const scale = z
  .tuple([z.number(), z.number()])
  .refine(([worst, best]) => worst < best, "the worst score first, a smaller number than the best");
const criterion = z.strictObject({
  name: nameSchema,
  description: z.string().min(1, "a text that is not empty"),
  weight: positive.default(1),
  scale: scale.default([1, 5]),
});
const rubricSchema = z.strictObject({
  name: nameSchema.default("rubric"),
  criteria: z
    .array(criterion)
    .min(1, "at least one")
    .max(100, "at most 100")
    .refine((all) => new Set(all.map(({ name }) => name)).size === all.length, "names that differ"),
  ...judged,
});
const rankingSchema = z.strictObject(judged);

/**
 * Defines a rubric. Throws a `ConfigurationError` that names the invalid field, for a definition of
 * any type.
 *
 * @example
 * const rubric = defineRubric({
 *   criteria: [
 *     { name: "solved", description: "5: the user got what it came for. 1: it did not.", weight: 3 },
 *     { name: "polite", description: "5: friendly and short. 1: rude, or endless." },
 *   ],
 * });
 */
export function defineRubric(definition: RubricDefinition): Rubric {
  return Object.freeze({ type: "rubric", ...checked(rubricSchema, definition, "a rubric") });
}

/** Defines the comparison of the episodes of a group. Throws like {@link defineRubric}. */
export function defineRanking(definition: JudgedDefinition = {}): Ranking {
  return Object.freeze({ type: "ranking", name: "ranking", ...checked(rankingSchema, definition, "a ranking") });
}

function checked<T>(schema: z.ZodType<T>, definition: unknown, what: string): T {
  const { data, error } = schema.safeParse(definition);
  if (error === undefined) return data;
  const { path, message } = error.issues[0]!;
  const place = path.map((key) => (typeof key === "number" ? `[${key}]` : `.${String(key)}`)).join("");
  const where = place === "" ? "" : `${place.replace(/^\./, "")}: `;
  throw new ConfigurationError(`Cannot define ${what}: ${where}${message}.`);
}

const task = `You judge a conversation between a user and an agent that works with tools. Score it by each of the criteria below, by nothing else, and each by itself. Be strict: the best score is for what cannot be done better.`;

/** Grader for a rubric, which asks the judge. */
export function rubricGrader(rubric: Rubric, judge: Judge): EpisodeGrader {
  const { name, weight, criteria, instructions } = rubric;
  const items = new Map(criteria.map((one) => [one.name, one.scale]));
  const schema = answerSchema(items);
  const list = criteria.map(
    ({ name: one, description, scale: [worst, best] }) =>
      `- ${one} (${worst} is worst, ${best} is best): ${description}`,
  );
  const form = `Answer with one JSON object and nothing else: for each criterion its name, with "reason" (one or two sentences) and "score" (a number on its scale).`;
  const total = criteria.reduce((sum, one) => sum + one.weight, 0);
  return {
    name,
    weight,
    judge,
    question: ({ task: { instruction }, guidelines, ending, events }) => ({
      grader: name,
      schema,
      messages: messagesOf(
        name,
        {
          system: [task, `Criteria:\n${list.join("\n")}`, instructions, formText, form],
          parts: [
            ["Guidelines of the agent", guidelines],
            ["What the user was told to want, which the agent did not see", instruction ?? ""],
            ["Conversation", transcriptOf({ events, ...ending }, rubric).join("\n")],
          ],
        },
        rubric,
      ),
      read: (answer) => {
        const scores = readScores(answer, items);
        const shares = criteria.map((one) => {
          const [worst, best] = one.scale;
          return (one.weight * (scores.get(one.name)!.score - worst)) / (best - worst);
        });
        return {
          value: Math.min(1, shares.reduce((sum, share) => sum + share, 0) / total),
          metrics: Object.fromEntries([...scores].map(([one, { score }]) => [one, score])),
          log: [...scores].map(([one, { score, reason }]) => `${name}.${one} ${score}: ${reason}`).join("\n"),
        };
      },
    }),
  };
}

// A ranking: one judge sees all conversations of a group and gives each a score from 0 to 1, so
// that it compares instead of measuring. Their common part is shown once. The caller draws the
// order of the conversations from a seed, so that a judge's preference for a position does not
// favor a position in the group.

const rankingTask = `You are shown several conversations between users and an agent that works with tools. All began with the same task; the agent went its own way in each. Compare them by how well the agent reached what the user wanted within its guidelines, and score each from 0 to 1:
- The scores are relative: the distances between them say how much better one is than another.
- Equally good conversations have equal scores.
- One that reaches the goal always scores higher than one that does not; among those that reach it, the more direct, correct and honest one scores higher.
- The order in which they are shown means nothing.`;

const form = `Answer with one JSON object and nothing else: for each conversation its number as a string, with "reason" (one or two sentences) and "score" (a number from 0 to 1).`;

/** Ranker for a group, which asks the judge. */
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
            system: [rankingTask, instructions, formText, form],
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

/** Number of leading lines that all transcripts share. The last line of each is never shared. */
function commonLength(transcripts: readonly (readonly string[])[]): number {
  const first = transcripts[0]!;
  const most = Math.min(...transcripts.map(({ length }) => length)) - 1;
  let length = 0;
  while (length < most && transcripts.every((lines) => lines[length] === first[length])) length++;
  return length;
}
