// Files of other tools as scores. Upstream's simulations of τ²-bench give the rewards that they
// record and, if the data are present, whether our evaluation gives the same. All other files give
// only their own rewards. No episode is run and no model is called: rewards that depend on a judge
// are taken as recorded, and facts that a file does not record stay unknown.

import { readdir, stat } from "node:fs/promises";
import { join } from "node:path";

import type { Outcome } from "../core/index.ts";
import {
  type DomainData,
  evaluate,
  isUserStop,
  judgedAssertions,
  loadTau2Data,
  readTau2Results,
  type ReadSimulation,
  type Tau2Message,
  type Tau2ResultFile,
  type Tau2Task,
} from "../environments/tau2-bench/index.ts";
import { type ForeignEpisode, type ForeignFile, foreignTurns, uniqueIdOf } from "../foreign/index.ts";
import { PythonError } from "../python-semantics/index.ts";
import {
  attributeFault,
  type ConversationStep,
  countActions,
  type EpisodeScore,
  isSuccess,
  type RescoredRun,
  type TaskFacts,
} from "../graders/index.ts";
import { tau2Facts } from "./tau2-facts.ts";
import { readRegular } from "../system/regular-file.ts";

/** A file of simulations, or a folder with one file per simulation; `null` if the path is neither. */
export async function readTau2File(path: string, name: string): Promise<Tau2ResultFile | null> {
  if (!(await stat(path)).isDirectory()) {
    const text = await readRegular(path, "utf8");
    // The result files of τ-bench are lists.
    return text.trimStart().startsWith("{") ? readTau2Results(text, name) : null;
  }
  const folder = join(path, "simulations");
  const files = await readdir(folder).catch(() => null);
  if (files === null) return null;
  const parts = new Map<string, string>();
  for (const file of files.filter((one) => one.endsWith(".json"))) {
    parts.set(file, await readRegular(join(folder, file), "utf8"));
  }
  return readTau2Results(await readRegular(join(path, "results.json"), "utf8"), name, parts);
}

type ReadFile = Omit<Tau2ResultFile, "repeated">;

/**
 * One score per simulation, by task and trial. `folder` holds the data; `null` if no reward is to
 * be confirmed.
 */
export async function scoreTau2File(file: ReadFile, folder: string | null): Promise<RescoredRun[]> {
  const data = folder === null ? null : await loadTau2Data({ domain: file.domain, folder });
  const indexes = new Map([...file.tasks.keys()].map((id, index) => [id, index]));
  const runs: RescoredRun[] = [];
  const known = new Map<Tau2Task, Promise<TaskFacts>>();
  const factsOf = async (from: DomainData, task: Tau2Task | undefined): Promise<TaskFacts | null> => {
    if (task === undefined) return null;
    const facts = known.get(task) ?? tau2Facts(from, task);
    known.set(task, facts);
    return facts;
  };
  for (const simulation of file.simulations) {
    const { taskId, trial, reward, reason } = simulation;
    // A task that is missing from the file's list follows the listed ones.
    if (!indexes.has(taskId)) indexes.set(taskId, indexes.size);
    const conversation = stepsOf(simulation.messages);
    const isFailed = reason !== "infrastructure_error" && reward !== null && !isSuccess(reward);
    const facts = data === null || file.isSolo || !isFailed ? null : await factsOf(data, file.tasks.get(taskId));
    const score = {
      recording: uniqueIdOf(simulation.id) ?? simulation.digest,
      taskId,
      taskIndex: indexes.get(taskId) ?? 0,
      contentHash: null,
      trial,
      // An infrastructure error says nothing about the agent; upstream excludes it as well.
      reward: reason === "infrastructure_error" ? null : reward,
      outcome: outcomes[reason],
      ending: reason,
      ...countActions(conversation),
      problems: {},
      agentCost: simulation.agentCost,
      userCost: simulation.userCost,
      durations: null,
      fault: facts === null ? null : attributeFault({ conversation, outcome: outcomes[reason], failure: null, facts }),
    };
    const replayedReward = data === null ? null : await confirm(data, file, simulation);
    runs.push({ score, recordedReward: reward, replayedReward, changedObservations: 0 });
  }
  return runs.toSorted((a, b) => a.score.taskIndex - b.score.taskIndex || a.score.trial - b.score.trial);
}

const outcomes: Readonly<Record<ReadSimulation["reason"], Outcome>> = {
  user_stop: "completed",
  agent_stop: "completed",
  max_steps: "truncated",
  timeout: "truncated",
  too_many_errors: "truncated",
  context_window_exceeded: "truncated",
  agent_error: "completed",
  user_error: "failed",
  infrastructure_error: "failed",
  unexpected_error: "failed",
};

/** The reward that our evaluation gives; `null` if it depends on a judge, or cannot be computed. */
async function confirm(data: DomainData, file: ReadFile, simulation: ReadSimulation): Promise<number | null> {
  const { reason, messages, reward, taskId } = simulation;
  const task = file.tasks.get(taskId);
  if (task === undefined || judgedAssertions(task).length > 0 || reward === null) return null;
  try {
    return (await evaluate(data, task, messages, { reason, isSolo: file.isSolo, isStrict: false })).reward;
  } catch (error) {
    // If the reference evaluator raises, no reward exists to compare with.
    if (error instanceof PythonError) return null;
    throw error;
  }
}

/** Utterances and calls of both sides. */
function stepsOf(messages: readonly Tau2Message[]): ConversationStep[] {
  const results = new Map(messages.flatMap((one) => (one.role === "tool" ? [[one.id, one] as const] : [])));
  return messages.flatMap((message): ConversationStep[] => {
    if (message.role === "system" || message.role === "tool") return [];
    const text = message.content ?? "";
    const { role } = message;
    if (message.toolCalls === null) {
      return role === "user" ? [{ type: "user", text, hangsUp: isUserStop(message) }] : [{ type: "agent", text }];
    }
    return message.toolCalls.map(({ id, name, arguments: given }) => {
      const result = results.get(id);
      return {
        type: role === "user" ? "user-call" : "call",
        name,
        arguments: given,
        result: result?.content ?? "",
        isError: result?.isError === true,
      };
    });
  });
}

/** Title for people, such as "inspect: popularity". */
export function titleOf({ format, title }: ForeignFile): string {
  return title === null ? format : `${format}: ${title}`;
}

/**
 * One score per episode, by task and trial. Tasks are numbered in order of appearance.
 * `onRepeated`: as for the file.
 */
export async function scoreForeign(file: ForeignFile, onRepeated: (id: string) => void): Promise<EpisodeScore[]> {
  const indexes = new Map<string, number>();
  const trials = new Map<string, number>();
  const scores: EpisodeScore[] = [];
  for await (const episode of file.episodes({ onRepeated })) {
    const { recording, taskId, contentHash, reward, trial, stopReason, error, messages } = episode;
    if (!indexes.has(taskId)) indexes.set(taskId, indexes.size);
    const place = trials.get(taskId) ?? 0;
    trials.set(taskId, place + 1);
    scores.push({
      recording,
      taskId,
      taskIndex: indexes.get(taskId) ?? 0,
      contentHash,
      trial: trial ?? place,
      reward,
      outcome: outcomeOf(episode),
      ending: error === null ? (stopReason ?? "not recorded") : "error",
      turns: foreignTurns(episode),
      toolCalls: messages?.reduce((sum, { toolCalls }) => sum + toolCalls.length, 0) ?? null,
      toolErrors: {},
      problems: {},
      agentCost: episode.agentCost,
      userCost: episode.userCost,
      durations: null,
      fault: null,
    });
  }
  return scores.toSorted((a, b) => a.taskIndex - b.taskIndex || a.trial - b.trial);
}

function outcomeOf({ error, isTruncated }: ForeignEpisode): EpisodeScore["outcome"] {
  if (error !== null) return "failed";
  return isTruncated === true ? "truncated" : "completed";
}
