// Rewards of policies that look at nothing: they do nothing, only talk, or make one call, the same
// in every task; or they recite what is written anyway: the guidelines, or every phrase of the
// user's agenda. A trained policy will find such rewards first.

import type { Environment, EnvironmentCall, EnvironmentSource, Task } from "../core/environment.ts";
import { messageOf } from "../core/failure.ts";
import { openInTime, spacedTasks } from "./environment-conformance.ts";
import type { EnvironmentFinding, EnvironmentExamination } from "./environment-finding.ts";
import { callText, constantCalls, inTime } from "./environment-play.ts";

const mostTools = 12;
const utterance = "It is done.";

/** Something that a policy does in every task: one call, some utterance, or both. */
type Policy = { readonly call: EnvironmentCall | null; readonly says: string | null };

/** Policies that only talk, by their description. */
const talkers: readonly (readonly [name: string, says: (world: Environment) => string | null])[] = [
  ["does nothing", () => null],
  [`only says "${utterance}"`, () => utterance],
  ["repeats the guidelines", ({ guidelines }) => guidelines],
  ["says every phrase of the agenda", ({ task }) => phrasesOf(task)],
];

/** Rewards by policy; one for each task in which it could act. */
type Rewards = Map<string, number[]>;

/** Finds the constant policy with the highest reward over the tasks that are tried. */
export async function constantPolicies(
  source: EnvironmentSource,
  options: EnvironmentExamination,
): Promise<EnvironmentFinding> {
  const check = "constant policy";
  if (source.graders?.gradeWeight === null) {
    return { check, result: "ok", text: "Not examined: models grade, and none is asked here.", remedy: null };
  }
  const { timeoutMs = 60_000, openTimeoutMs = timeoutMs, isAllowed = () => true, signal } = options;
  const rewards: Rewards = new Map();
  let count = 0;
  try {
    for (const task of source.splits.flatMap((split) => spacedTasks(source, split, options.tasks))) {
      if (signal?.aborted === true) break;
      const policies = new Map<string, Policy>([["does nothing", { call: null, says: null }]]);
      count++;
      for (const [name, policy] of policies) {
        const reward = await rewardOf(source, task, {
          timeoutMs,
          openTimeoutMs,
          policy,
          onOpen: (world) => {
            for (const [talker, words] of talkers) {
              const says = words(world);
              if (says !== null) policies.set(talker, { call: null, says });
            }
            for (const tool of world.tools.slice(0, mostTools)) {
              for (const call of constantCalls(tool)) {
                if (isAllowed(world, call)) policies.set(callText(call), { call, says: utterance });
              }
            }
          },
        });
        rewards.set(name, [...(rewards.get(name) ?? []), reward]);
      }
    }
  } catch (error) {
    return {
      check,
      result: "fault",
      text: `A policy that does the same everywhere cannot be run: ${messageOf(error)}`,
      remedy: "answer every call with a result",
    };
  }
  return judged(rewards, count);
}

/** Reward of one episode in which only this happens. */
async function rewardOf(
  source: EnvironmentSource,
  task: Task,
  options: {
    readonly timeoutMs: number;
    readonly openTimeoutMs: number;
    readonly policy: Policy;
    readonly onOpen: (world: Environment) => void;
  },
): Promise<number> {
  const { timeoutMs, policy } = options;
  const { call, says } = policy;
  const world = await openInTime(source, task, options.openTimeoutMs);
  try {
    options.onOpen(world);
    const ended =
      call !== null &&
      (await inTime(`a call of "${call.name}"`, timeoutMs, (signal) => world.call(call, { signal }))).endsEpisode;
    if (says !== null && !ended) {
      await inTime("receiving an utterance", timeoutMs, (signal) => world.receiveUtterance(says, { signal }));
    }
    const ending = { outcome: "completed" } as const;
    return (await inTime("grading", timeoutMs, (signal) => world.grade(ending, { signal }))).reward;
  } finally {
    await inTime("closing", timeoutMs, () => world.close?.()).catch(() => undefined);
  }
}

/** Every phrase by which a task's user recognizes an answer, in one utterance; `null` without an agenda. */
function phrasesOf({ agenda }: Task): string | null {
  if (agenda === null) return null;
  const phrases = agenda.goals.flatMap(({ settledBy, confirmation, secondThought }) => [
    ...settledBy,
    ...[confirmation, secondThought?.confirmation].flatMap((one) => one?.mustName.flat() ?? []),
  ]);
  return [...new Set(phrases)].map((phrase) => `${phrase}.`).join(" ");
}

function judged(rewards: Rewards, count: number): EnvironmentFinding {
  const check = "constant policy";
  const mean = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0) / count;
  const [best, values] = [...rewards].reduce((first, one) => (mean(one[1]) > mean(first[1]) ? one : first), [
    "does nothing",
    rewards.get("does nothing") ?? [],
  ] as [string, number[]]);
  const all = [...rewards.values()].flat();
  const highest = all.reduce((most, value) => Math.max(most, value), -Infinity);
  if (highest <= 0) {
    const text = `${rewards.size} policies that do the same in ${count} tasks: none earned more than 0.`;
    return { check, result: "ok", text, remedy: null };
  }
  if (all.every((value) => value === highest)) {
    const text = `Every one of ${rewards.size} policies earned ${highest} in every task, doing nothing among them: nothing can be learned.`;
    return { check, result: "fault", text, remedy: "let grade look at what the episode changed" };
  }
  const earned = values.filter((value) => value > 0).length;
  const text =
    `The best of ${rewards.size}, the policy that ${best.includes("(") ? `calls ${cut(best)} and says "${utterance}"` : best}, ` +
    `earns ${round(mean(values))} on average, more than 0 in ${earned} of ${count} tasks.${reciting(rewards, { best, mean })}`;
  const remedy = "see whether these tasks are solved by it; otherwise reward what only a policy that reads them can do";
  return { check, result: "warning", text, remedy };
}

/** Sentences about the other policies that only talk and earn something. */
function reciting(
  rewards: Rewards,
  { best, mean }: { readonly best: string; readonly mean: (values: readonly number[]) => number },
): string {
  const earning = talkers
    .map(([name]) => [name, mean(rewards.get(name) ?? [])] as const)
    .filter(([name, earned]) => name !== best && earned > 0);
  return earning.map(([name, earned]) => ` One that ${name} earns ${round(earned)}.`).join("");
}

export function round(value: number): string {
  return value >= 10 ? String(Math.round(value)) : String(Math.round(value * 100) / 100);
}

function cut(text: string): string {
  return text.length > 100 ? `${text.slice(0, 100)}…` : text;
}
