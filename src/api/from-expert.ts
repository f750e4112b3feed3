// A model from scratch for a world of the author's own (`train --from-expert`): conversations of
// the author's scripted expert, or recorded ones, become a tokenizer and weights that can be
// trained by rewards.

import { createHash } from "node:crypto";
import { existsSync, statSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { makeFolder } from "../system/make-folder.ts";
import { z } from "zod";
import {
  type AgentStrategy,
  type ChatAgent,
  ConfigurationError,
  type EnvironmentSource,
  freeUsage,
  type Message,
  messageOf,
  type ParsedAction,
  type Task,
  useEnvironment,
  type UserSource,
} from "../core/index.ts";
import {
  type Conversation,
  type ConversationSource,
  cloneFromNothing,
  ownRecipe,
} from "../learner/pretraining/index.ts";
import { createRandom, deriveSeed } from "../lib/random.ts";
import { jsonOf } from "../lib/text.ts";
import { dumpJson, fromPlain } from "../python-semantics/json/index.ts";
import { runChatEpisode } from "../rollout/index.ts";
import { readEpisodes } from "../store/index.ts";
import { importDefault } from "./load-environment.ts";
import { readRegular } from "../system/regular-file.ts";
import { anyNames } from "../lib/any-names.ts";

/** The input that an expert sees before an action. */
export type ExpertView = {
  /** The conversation so far, from the guidelines to the latest message. */
  readonly messages: readonly Message[];
  /**
   * The next number, from 0 to 1, of a sequence that restarts before every action, so that a choice
   * made from it stays the same throughout a conversation.
   */
  readonly random: () => number;
};

/** A sentence for the user, or a call. */
export type ExpertAction =
  | string
  | {
      /** A note before a call, which the user does not read. */
      readonly say?: string;
      readonly call?: { readonly name: string; readonly arguments: Readonly<Record<string, unknown>> };
      /**
       * False for a deliberate mistake, which is shown but not cloned, so that the recovery from it
       * is learnt. @default true
       */
      readonly learn?: boolean;
    };

/**
 * Demonstrates how to act in a world. Decides only from the given view: the same view gives the
 * same action.
 */
export type Expert = (view: ExpertView) => ExpertAction | Promise<ExpertAction>;

export type OwnModelOptions = {
  /** A module with an {@link Expert} as its default export, or the folder of a recorded run. */
  readonly fromExpert: string;
  readonly size: "small" | "nano";
  /**
   * Number of conversation tokens to clone; `null` for as many as half of the remaining time
   * allows, a million at most.
   */
  readonly tokens: number | null;
  /** Minutes that the whole training has left, cloning included. */
  readonly minutes: number;
  readonly seed: number;
  readonly threads: number;
  readonly maxTurns: number;
  /** Lowest reward of a recorded episode to clone; `null` accepts any reward, and none. */
  readonly minReward: number | null;
  readonly environment: EnvironmentSource;
  /** Tasks that are trained on; there may be too many to create all of them. */
  readonly tasks: { readonly count: number; readonly at: (place: number) => Task };
  readonly user: UserSource;
  readonly strategy: AgentStrategy;
  /** Folder of the training, absolute. The model is written to its subfolder `model`. */
  readonly folder: string;
  readonly cwd: string;
  readonly signal: AbortSignal;
  readonly notice: (message: string) => void;
};

/**
 * Resolves with false when the signal stopped it; another call continues it. Rejects with a
 * `ConfigurationError` for an expert that fails.
 */
export async function makeOwnModel(options: OwnModelOptions): Promise<boolean> {
  const { fromExpert, folder, cwd, tokens, seed, threads, signal, notice } = options;
  const place = resolve(cwd, fromExpert);
  const isFolder = existsSync(place) && statSync(place).isDirectory();
  const conversations = isFolder ? await recordedConversations(place, options) : await expertConversations(options);
  const first = await conversations(0, Math.min(8, options.tasks.count));
  const digest = createHash("sha256")
    .update(JSON.stringify([first, options.size, tokens]))
    .digest("hex")
    .slice(0, 12);
  // The folder is named after these conversations: those of another expert make another model.
  const stateFolder = join(folder, "cloning", digest);
  const begun = performance.now();
  const chooseTokens = async (msPerToken: number): Promise<number> => {
    const minutes = options.minutes - (performance.now() - begun) / 60_000;
    const plan = planCloning({ requested: tokens, msPerToken, minutes });
    notice(plan.remark);
    await writePlan(stateFolder, plan.tokens);
    return plan.tokens;
  };
  return cloneFromNothing(
    {
      recipeOf: (count) => ownRecipe(options.size, { tokens: count, seed, threads }),
      tokens: (await readPlan(stateFolder)) ?? chooseTokens,
    },
    conversations,
    {
      folder: join(folder, "model"),
      stateFolder,
      signal,
      report: ({ phase, step, tokens: done, training }) => {
        const seconds = ((performance.now() - begun) / 1000).toFixed(0);
        const learnt = training === null ? "" : `, ${training.nll.toFixed(3)} nats per token`;
        notice(`${phase}: step ${step}, ${done} tokens${learnt}, ${seconds} s`);
      },
    },
  );
}

/**
 * The planned amount of cloning of a training with `--from-expert`, and a remark for its user
 * before it begins.
 */
export type CloningBudget = {
  readonly tokens: number;
  /**
   * A line for people: the duration of the cloning, and a remedy if too little time is left for
   * rewards.
   */
  readonly remark: string;
};

/** Conversation tokens below which a clone mostly writes garbage at temperature 1 (docs/learner-log.md). */
const fewestTokens = 400_000;
const mostTokens = 1_000_000;
/** Share of the time that cloning may take; the evaluations and the steps of rewards need the rest. */
const cloningShare = 0.5;

/**
 * `requested`: number of conversation tokens, `null` to choose it from the time. `minutes`: time
 * left for the whole training.
 */
export function planCloning(given: {
  readonly requested: number | null;
  readonly msPerToken: number;
  readonly minutes: number;
}): CloningBudget {
  const { requested, msPerToken, minutes } = given;
  const minutesFor = (tokens: number): number => (tokens * msPerToken) / 60_000;
  const affordable = (cloningShare * minutes) / minutesFor(1);
  const rounded = Math.max(10_000, Math.floor(Math.min(mostTokens, affordable) / 10_000) * 10_000);
  const tokens = requested ?? rounded;
  const needed = Math.max(1, Math.ceil(minutesFor(requested ?? fewestTokens) / cloningShare));
  const takes = `cloning ${tokens} tokens takes about ${minutesFor(tokens).toFixed(1)} of ${minutes.toFixed(1)} minutes on this machine`;
  if (requested === null) {
    const remark =
      tokens < fewestTokens
        ? `${takes}: a clone of fewer than ${fewestTokens} tokens is rarely good enough to learn from rewards; pass --minutes ${needed} or more`
        : takes;
    return { tokens, remark };
  }
  if (requested <= affordable) return { tokens, remark: takes };
  const remedy = `pass --minutes ${needed} or more${rounded < requested ? `, or --clone-tokens ${rounded}` : ""}`;
  return { tokens, remark: `${takes}, which leaves too little for rewards: ${remedy}` };
}

const planFile = "plan.json";
const planSchema = z.object({ tokens: z.int().min(1) });

/** The number of tokens that an interrupted cloning was planned with; `null` if none was planned. */
async function readPlan(stateFolder: string): Promise<number | null> {
  const text = await readRegular(join(stateFolder, planFile), "utf8").catch(() => null);
  return text === null ? null : (planSchema.safeParse(jsonOf(text)).data?.tokens ?? null);
}

async function writePlan(stateFolder: string, tokens: number): Promise<void> {
  await makeFolder(stateFolder);
  await writeFile(
    join(stateFolder, planFile),
    `${JSON.stringify({ tokens })}
`,
  );
}

async function expertConversations(options: OwnModelOptions): Promise<ConversationSource> {
  const { fromExpert, cwd, tasks, seed } = options;
  const expert = await importDefault(fromExpert, { cwd, what: "expert", flag: "--from-expert" });
  if (typeof expert !== "function") {
    throw new ConfigurationError(
      `Cannot use "${fromExpert}" as an expert: its default export is not a function; export one that takes { messages, random }.`,
    );
  }
  const show = async (place: number): Promise<Conversation> => {
    const task = tasks.at(place % tasks.count);
    return showTask(
      task,
      deriveSeed(seed, "expert", Math.floor(place / tasks.count), task.id),
      expert as Expert,
      options,
    );
  };
  return (first, count) => Promise.all(Array.from({ length: count }, (_, index) => show(first + index)));
}

async function showTask(task: Task, seed: number, expert: Expert, options: OwnModelOptions): Promise<Conversation> {
  const { environment, user, strategy, maxTurns } = options;
  const isLearnt: boolean[] = [];
  let tools: Conversation["tools"] = [];
  const agent: ChatAgent = {
    name: "expert",
    reply: async (request) => {
      const random = createRandom(seed);
      const action = await expert({ messages: request.messages, random: () => random.next() });
      const read = parsed(action, request.turn);
      ({ tools } = request);
      isLearnt.push(typeof action === "string" || action.learn !== false);
      return { action: read, usage: freeUsage, attempts: [] };
    },
  };
  const episode = await runChatEpisode(task, { environment, user, strategy, agent }, { seed, limits: { maxTurns } });
  if (episode.failure !== null) {
    const { boundary, message } = episode.failure;
    const whose = boundary === "engine" ? "the expert" : `the ${boundary}`;
    throw new ConfigurationError(`Cannot clone the expert at task "${task.id}": ${whose} failed: ${message}`);
  }
  const places = [...episode.messages.entries()].flatMap(([place, { role }]) => (role === "assistant" ? [place] : []));
  return { messages: episode.messages, tools, mistakes: new Set(places.filter((_, turn) => isLearnt[turn] === false)) };
}

const actionSchema = z.union([
  z.string(),
  z.strictObject({
    say: z.string().optional(),
    call: z.strictObject({ name: z.string().min(1), arguments: anyNames(z.unknown()) }).optional(),
    learn: z.boolean().optional(),
  }),
]);

/** Throws a plain error for a value that is not an action; the episode attributes it. */
function parsed(given: unknown, turn: number): ParsedAction {
  const { success, data } = actionSchema.safeParse(given);
  if (!success)
    throw new TypeError(`what it returns at turn ${turn} is not an action; return a sentence, or { say, call, learn }`);
  const { say = "", call } = typeof data === "string" ? { say: data } : data;
  if (say === "" && call === undefined) throw new TypeError(`it neither says nor calls anything at turn ${turn}`);
  const argumentsText = call === undefined ? "" : dumpJson(fromPlain(call.arguments));
  return {
    text: say,
    reasoning: null,
    content: say,
    problems: [],
    isTerminated: true,
    toolCalls: call === undefined ? [] : [{ id: `call_${turn}_0`, name: call.name, argumentsText }],
  };
}

/** Recorded guidelines and tools are replaced by those that the training shows. */
async function recordedConversations(folder: string, options: OwnModelOptions): Promise<ConversationSource> {
  const { environment, strategy, minReward, fromExpert } = options;
  const found: Conversation[] = [];
  for await (const { task, messages, reward, outcome } of readEpisodes(folder)) {
    if (outcome === "failed" || outcome === "aborted" || task.environment !== environment.name) continue;
    if (minReward !== null && (reward === null || reward < minReward)) continue;
    const { messages: opening, tools } = await openingOf(environment, task, strategy).catch((error: unknown) => {
      throw new ConfigurationError(`Cannot clone the recorded episode of task "${task.id}": ${messageOf(error)}`, {
        cause: error,
      });
    });
    const system = opening.filter(({ role }) => role === "system");
    found.push({
      messages: [...system, ...messages.filter(({ role }) => role !== "system")],
      tools,
      mistakes: new Set(),
    });
  }
  if (found.length === 0) {
    throw new ConfigurationError(
      `Cannot clone "${fromExpert}": it has no finished episode of "${environment.name}"` +
        `${minReward === null ? "" : ` with a reward of ${minReward} or more`}; name a run of this environment.`,
    );
  }
  return async (first, count) => Array.from({ length: count }, (_, index) => found[(first + index) % found.length]!);
}

function openingOf(environment: EnvironmentSource, task: Task, strategy: AgentStrategy) {
  return useEnvironment(environment, task, ({ guidelines, tools }) =>
    strategy.open({ guidelines, tools, firstUtterance: "", seed: 0 }),
  );
}
