// The benchmark as an environment of the episode loop: the agent's calls and utterances, and
// everything that the user says or does, go through one conversation with the reference's rules,
// and the grade is the reference's evaluation of it.

import { createHash } from "node:crypto";
import type {
  AgentCallOptions,
  Ending,
  Environment,
  EnvironmentCall,
  EnvironmentSource,
  Grade,
  GradeOptions,
  LocalEnvironmentSource,
  Task,
  ToolResult,
  UserOutcome,
  UserSide,
} from "../../core/environment.ts";
import { ConfigurationError, faultAt } from "../../core/failure.ts";
import type { Question } from "../../core/judge.ts";
import { type Message, type Tool, toolFromDefinition } from "../../core/message.ts";
import { createTaskset } from "../../core/taskset.ts";
import type { UserLine } from "../../core/user-line.ts";
import { PythonError } from "../../python-semantics/index.ts";
import { dumpJson, fromPlain, type JsonObject, type JsonValue } from "../../python-semantics/json/index.ts";
import { Conversation, isUserStop, stopToken } from "./conversation.ts";
import type { DomainData } from "./domain-data.ts";
import {
  assertionQuestion,
  evaluate,
  isGraded,
  judgedAssertions,
  readVerdicts,
  type RewardInfo,
  type TerminationReason,
  type Verdict,
} from "./evaluate.ts";
import type { Requestor, SpokenMessage, Tau2Message, ToolMessage } from "./messages.ts";
import {
  agentPrompt,
  isSoloTask,
  scenarioText,
  soloAgentPrompt,
  soloStopTool,
  userPrompt,
  visibleTo,
} from "./prompts.ts";
import { loggedReadsOf, type Tau2Task } from "./tasks.ts";
import { countedIds, Tau2World } from "./world.ts";

export type Tau2Options = {
  /**
   * True for an agent that also has the user's tools and works from a ticket, without a user.
   * Tasks that need a user are excluded.
   * @default false
   */
  readonly isSolo?: boolean;
  /**
   * Maximum number of messages and rounds of calls; the default is that of the reference's command
   * line. @default 200
   */
  readonly maxSteps?: number;
  /** Maximum number of failed calls. @default 10 */
  readonly maxErrors?: number;
  /**
   * The split to be run: "full", with telecom's 2,285 tasks, is only read if it is named.
   * @default none
   */
  readonly split?: string | null;
};

/**
 * The environments of a domain. Reads the tasks of every split, so that they are available without
 * waiting; rejects with a `ConfigurationError` for a domain without the mode, and for broken files.
 */
export async function tau2Source(data: DomainData, options: Tau2Options = {}): Promise<LocalEnvironmentSource> {
  const { isSolo = false } = options;
  const { domain } = data;
  const environment = `tau2-bench/${domain.name}${isSolo ? "-solo" : ""}`;
  if (isSolo && domain.soloRefusal !== null) {
    throw new ConfigurationError(
      `Cannot run "${environment}" without a user: ${domain.soloRefusal}; choose the domain without "-solo".`,
    );
  }
  const splits = new Map<string, readonly Tau2Task[]>();
  for (const split of data.splits) {
    if (split === "full" && options.split !== "full") continue;
    splits.set(split, await playableTasks(data, split, { isSolo }));
  }
  const taskAt = (split: string, index: number): Tau2Task => splits.get(split)![index]!;
  const asksJudge = [...splits.values()].flat().some((task) => judgedAssertions(task).length > 0);
  return {
    name: environment,
    splits: [...splits.keys()],
    users: isSolo ? ["task"] : [...(domain.folder === "telecom" ? ["rules"] : []), "llm", "scripted", "human"],
    argumentErrors: "environment",
    unknownTools: "environment",
    taskset: (split) =>
      createTaskset(environment, split, {
        sizes: Object.fromEntries([...splits].map(([name, tasks]) => [name, tasks.length])),
        task: (index) => {
          const task = taskAt(split, index);
          const id = `${environment}:${split}:${index}`;
          const contentHash = createHash("sha256")
            .update(`${data.fingerprint}\n${dumpJson(task.record)}`)
            .digest("hex");
          return { id, environment, split, index, contentHash, instruction: scenarioText(task), agenda: null };
        },
      }),
    ...(asksJudge ? { needsJudge: ({ split, index }) => judgedAssertions(taskAt(split, index)).length > 0 } : {}),
    open: (task) => new Tau2Environment(task, { data, task: knownTask(splits, task), options }),
  } satisfies EnvironmentSource;
}

/**
 * The tasks of a split, in the order of their indexes in an environment; without a user, only tasks
 * that need none.
 */
export async function playableTasks(
  data: DomainData,
  split: string,
  { isSolo = false }: Pick<Tau2Options, "isSolo"> = {},
): Promise<readonly Tau2Task[]> {
  const tasks = await data.tasks(split);
  return isSolo ? tasks.filter(isSoloTask) : tasks;
}

function knownTask(splits: ReadonlyMap<string, readonly Tau2Task[]>, { id, split, index }: Task): Tau2Task {
  const task = splits.get(split)?.[index];
  if (task === undefined) throw new RangeError(`Cannot open task "${id}": there is none of that split and number.`);
  return task;
}

type Parts = { readonly data: DomainData; readonly task: Tau2Task; readonly options: Tau2Options };

const doneTool = toolFromDefinition(
  fromPlain({
    type: "function",
    function: {
      name: soloStopTool,
      description: "Ends the work on the ticket. Call it alone, when everything that can be done is done.",
      parameters: { type: "object", properties: {} },
    },
  }) as JsonObject,
);

const nothing = (text: string): ToolResult => ({ text, isError: false, endsEpisode: true, info: new Map() });

/** One conversation of the benchmark as the loop runs it. */
export class Tau2Environment implements Environment {
  readonly task: Task;
  readonly guidelines: string;
  readonly tools: readonly Tool[];
  readonly info: JsonObject;
  readonly opening: string | null;
  readonly history: readonly Message[];
  readonly userSide: UserSide | null;
  readonly #parts: Parts;
  readonly #world: Tau2World;
  readonly #conversation: Conversation;
  /** Termination reason for an end that the conversation itself did not decide. */
  #fault: TerminationReason | null = null;
  #callCount = 0;

  constructor(given: Task, parts: Parts) {
    const { data, task, options } = parts;
    const { isSolo = false, maxSteps = 200, maxErrors = 10 } = options;
    this.#parts = parts;
    this.#world = new Tau2World(data.world, { isSolo, createId: countedIds("B"), loggedReads: loggedReadsOf(task) });
    this.#conversation = new Conversation(this.#world, task, {
      maxSteps,
      maxErrors,
      isAgentStop: ({ content }) => isSolo && (content?.includes(stopToken) ?? false),
    });
    const { state, messages } = this.#conversation;
    if (!isSolo && (state.type === "over" || state.speaker !== "user")) {
      throw new ConfigurationError(
        `Cannot run task "${task.id}": its conversation so far does not end with the agent's words.`,
      );
    }
    const { userTools } = task;
    const ownTools = data.userTools.filter(({ name }) => userTools === null || userTools.includes(name));
    this.task = given;
    this.info = new Map<string, JsonValue>([["tau2_task", task.id]]);
    this.tools = isSolo ? [...data.tools, ...data.userTools, doneTool] : data.tools;
    const { soloPolicy, prompts, userGuidelines } = data;
    const policy = data.policyFor(task);
    // The ticket is in the system message, as in upstream, and also the first user message, because
    // most templates need one.
    this.opening = isSolo ? (task.ticket ?? scenarioText(task)) : null;
    if (isSolo) this.guidelines = soloAgentPrompt(prompts?.soloAgent ?? soloInstruction, soloPolicy ?? policy, task);
    else this.guidelines = prompts === null ? policy : agentPrompt(prompts.agent, policy);
    this.history = isSolo ? [] : visibleTo("assistant", messages).map((message) => asMessage(message, "assistant"));
    this.userSide = isSolo
      ? null
      : {
          prompt: userPrompt(ownTools.length > 0 ? userGuidelines.tools : userGuidelines.plain, scenarioText(task)),
          tools: ownTools,
          history: visibleTo("user", messages).map((message) => asMessage(message, "user")),
          act: (line) => this.#letUserAct(line),
        };
  }

  call({ name, arguments: given }: EnvironmentCall, { action = alone }: Partial<AgentCallOptions> = {}): ToolResult {
    if (this.#isOver) return nothing("The conversation is over.");
    this.#conversation.skipUser();
    const isDone = this.#parts.options.isSolo === true && name === soloStopTool;
    if (isDone) {
      this.#say({ role: "assistant", content: stopToken, toolCalls: null }, "agent_error");
      return nothing(stopToken);
    }
    const call = { id: `call_${this.#callCount++}`, name, arguments: given, requestor: "assistant" as const };
    const { content, isError } = this.#conversation.callAsAgent(call, action);
    return { text: content, isError, endsEpisode: this.#isOver, info: new Map() };
  }

  receiveUtterance(utterance: string): { readonly endsEpisode: boolean } {
    this.#conversation.skipUser();
    this.#say({ role: "assistant", content: utterance, toolCalls: null }, "agent_error");
    return { endsEpisode: this.#isOver };
  }

  question(ending: Ending): Question<readonly Verdict[]> | null {
    const { data, task } = this.#parts;
    const assertions = judgedAssertions(task);
    if (assertions.length === 0 || !isGraded(this.#reason(ending))) return null;
    return assertionQuestion(data.prompts, this.#conversation.messages, assertions);
  }

  async grade(ending: Ending, { answer = null }: Partial<GradeOptions> = {}): Promise<Grade> {
    const { data, task, options } = this.#parts;
    const { messages } = this.#conversation;
    const reason = this.#reason(ending);
    if (answer === null && this.question(ending) !== null) throw withoutJudge(task);
    const judge = async (): Promise<readonly Verdict[]> => readVerdicts(answer ?? "");
    const judged = { reason, isSolo: options.isSolo ?? false, judge };
    try {
      return gradeOf(await evaluate(data, task, messages, judged), reason, task);
    } catch (error) {
      if (!(error instanceof PythonError)) throw error;
      // For example, an assertion about a missing record: the reference runs the whole simulation
      // again.
      const log = `The state cannot be what the task asks for: ${error.message}.`;
      return { reward: 0, metrics: {}, log, info: new Map([["termination_reason", reason]]) };
    }
  }

  /** All messages and answers so far, as upstream records them. */
  get messages(): readonly Tau2Message[] {
    return this.#conversation.messages;
  }

  /** The termination reason; `null` if the conversation itself has not ended. */
  get ended(): TerminationReason | null {
    const { state } = this.#conversation;
    return this.#fault ?? (state.type === "over" ? state.reason : null);
  }

  digest(): string {
    const { agent, user } = this.#world.digests();
    return createHash("sha256").update(`${agent} ${user}`).digest("hex");
  }

  #reason({ outcome }: Ending): TerminationReason {
    return this.ended ?? (outcome === "completed" ? "agent_error" : "max_steps");
  }

  get #isOver(): boolean {
    return this.ended !== null;
  }

  /**
   * Takes a message. An error for which the reference would discard the whole simulation ends it
   * here, as its side's fault.
   */
  #say(message: SpokenMessage, fault: TerminationReason): void {
    if (this.#isOver) return;
    try {
      this.#conversation.say(message);
    } catch (error) {
      if (!(error instanceof PythonError)) throw error;
      this.#fault = fault;
    }
  }

  #letUserAct({ type, text, calls = [] }: UserLine): UserOutcome {
    if (this.#isOver) return { results: [], endsEpisode: true };
    if (type === "calls") {
      const before = this.#conversation.messages.length;
      const toolCalls = calls.map((call) => ({ ...call, requestor: "user" as const }));
      this.#say({ role: "user", content: text === "" ? null : text, toolCalls }, "user_error");
      const results = this.#conversation.messages.slice(before).filter((message) => message.role === "tool");
      return { results: results.map(asResult), endsEpisode: this.#isOver };
    }
    const said: SpokenMessage = { role: "user", content: text, toolCalls: null };
    const isStop = isUserStop(said);
    // Any other way of hanging up also means that the user is done.
    const content = type === "hang-up" && !isStop ? `${text} ${stopToken}`.trim() : text;
    this.#say({ ...said, content }, "user_error");
    return { results: [], endsEpisode: this.#isOver };
  }
}

/**
 * The error for a missing judge: upstream's evaluator also raises, and the episode has no reward.
 */
function withoutJudge({ id }: Tau2Task): Error {
  return faultAt(
    "grader",
    "no-judge",
    `Cannot grade task "${id}": it has assertions in words, and there is no judge for them; pass --judge-model, or leave the task out with --tasks.`,
  );
}

const alone = { call: 0, calls: 1, text: "" } as const;

/** Instruction for data without upstream's own. */
const soloInstruction =
  "You solve the ticket below by calling tools, within the policy. There is nobody to talk to. " +
  `When everything that can be done is done, call the tool {stop_function_name}, alone.`;

function asResult({ content, isError }: ToolMessage): ToolResult {
  return { text: content ?? "", isError, endsEpisode: false, info: new Map() };
}

/** A message as one side sees it, with its own messages as the assistant's. */
function asMessage(message: Tau2Message, side: Requestor): Message {
  const content = message.content ?? "";
  if (message.role === "tool") return { role: "tool", content, name: "", callId: message.id };
  if (message.role !== side) return { role: "user", content };
  const toolCalls = message.toolCalls ?? [];
  return {
    role: "assistant",
    content,
    reasoning: null,
    toolCalls: toolCalls.map(({ id, name, arguments: given }) => ({ id, name, argumentsText: dumpJson(given) })),
  };
}

function gradeOf(info: RewardInfo, reason: TerminationReason, task: Tau2Task): Grade {
  const { actionChecks, assertions, communicated, isDatabaseRight, verdicts } = info;
  const share = (checks: readonly boolean[]): number => checks.filter(Boolean).length / checks.length;
  const metrics: Record<string, number> = {};
  if (isDatabaseRight !== null) metrics["database_right"] = Number(isDatabaseRight);
  if (assertions !== null && assertions.length > 0) metrics["assertions_met"] = share(assertions);
  if (actionChecks !== null) metrics["actions_met"] = share(actionChecks.map(({ isMet }) => isMet));
  if (communicated !== null) metrics["communicated"] = share(communicated.map(({ isMet }) => isMet));
  const { breakdown } = info;
  const log = info.reward === 1 ? [] : [explain(info, reason)];
  if (verdicts !== null && verdicts.length > 0) metrics["words_met"] = share(verdicts.map(({ isMet }) => isMet));
  const count = judgedAssertions(task).length;
  // Missing verdicts are only logged, because upstream does not notice them.
  if (verdicts !== null && verdicts.length !== count) {
    log.push(`The judge was asked about ${count} assertions and answered for ${verdicts.length}.`);
  }
  const expected = (task.criteria?.actions ?? [])
    .filter(({ requestor }) => requestor === "assistant")
    .map((action) => new Map<string, JsonValue>(Object.entries({ name: action.name, arguments: action.arguments })));
  return {
    reward: info.reward,
    metrics,
    log: log.join("\n"),
    info: new Map<string, JsonValue>([
      ["termination_reason", reason],
      ["reward_breakdown", fromPlain(breakdown ?? {})],
      ...(info.reward === 1 || expected.length === 0 ? [] : new Map([["expected_actions", expected]])),
    ]),
  };
}

/** Explains to people why the reward is not 1. */
function explain(info: RewardInfo, reason: TerminationReason): string {
  const { breakdown, actionChecks, communicated, assertions, verdicts } = info;
  if (breakdown === null) return `The conversation ended with "${reason}", which is not graded.`;
  const missing = (actionChecks ?? []).filter(({ isMet }) => !isMet).map(({ action }) => action.name);
  const unmet = (verdicts ?? [])
    .filter(({ isMet }) => !isMet)
    .map(({ assertion, reason: why }) => `${assertion} (${why})`);
  const unsaid = (communicated ?? []).filter(({ isMet }) => !isMet).map(({ text }) => text);
  const parts = [
    breakdown.DB === 0 ? "the data are not those of the reference solution" : "",
    breakdown.ENV_ASSERTION === 0
      ? `${(assertions ?? []).filter((isMet) => !isMet).length} assertions on the world fail`
      : "",
    missing.length > 0 ? `not done: ${missing.join(", ")}` : "",
    breakdown.COMMUNICATE === 0 ? `not said: ${unsaid.join(", ")}` : "",
    breakdown.NL_ASSERTION === 0 ? `not met: ${unmet.join("; ")}` : "",
  ];
  return `${parts.filter((part) => part !== "").join("; ")}.`;
}
