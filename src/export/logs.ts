// Episodes for other viewers: trajectories of ATIF 1.8 (Harbor, Phoenix, Docent), one per line,
// with token ids and logprobs of every call; and samples of an inspect log (JSON, version 2), which
// cannot hold token ids. Both take every episode, failed ones too, since people read them. Missing
// facts of an episode are omitted, never zero.

import type { Episode, EpisodeEvent, Lineage, Message, Turn } from "../core/index.ts";
import { columns, json, type RowOf, shortestFloat32, string } from "./columns.ts";
import { type ChatMessage, conversationOf, exchangePlaces, toolsOfSession } from "./conversations.ts";
import { episodeDigests, type EpisodeFacts, episodeFacts, type ExportOrigin, withRun } from "./samples.ts";

type LogOrigin = Omit<ExportOrigin, "groupMean" | "sampleCount">;

type Json = Readonly<Record<string, unknown>>;

export const atifColumns = columns({
  schema_version: string(),
  session_id: string("the group"),
  trajectory_id: string("the episode"),
  agent: json<Json>(),
  steps: json<readonly Json[]>("messages; those of the agent with their calls, results, token ids and logprobs"),
  final_metrics: json<Json>(),
  subagent_trajectories: json<readonly Json[] | null>(
    "other agents of an outside program, nested as they were started",
  ),
  extra: json<LogFacts>("facts of the episode; `reward` null: not graded"),
});

export type AtifRow = RowOf<typeof atifColumns>;

type LogFacts = EpisodeFacts & {
  readonly reward: number | null;
  readonly failure: string | null;
  readonly metrics: Readonly<Record<string, number>>;
  readonly turn_rewards: readonly (number | null)[] | null;
  readonly turn_digests: ReturnType<typeof episodeDigests>;
};

function factsOf(origin: LogOrigin): LogFacts {
  const { reward, failure, grade } = origin.episode;
  return {
    ...episodeFacts(origin),
    reward,
    failure: failure === null ? null : `${failure.boundary}/${failure.code}: ${failure.message}`,
    metrics: grade?.metrics ?? {},
    turn_rewards: grade?.turnRewards ?? null,
    turn_digests: episodeDigests(origin.episode),
  };
}

export function toAtifRow(origin: LogOrigin, tools: string | null): AtifRow {
  const { episode, run } = origin;
  const { lineages } = episode.events.find((event) => event.type === "lineages") ?? { lineages: [] };
  const main = lineages.find(({ kind }) => kind === "main");
  const id = withRun(run, episode.id);
  /** `started`: its lineages, of which the main one also has those that nothing is known to have started. */
  const trajectory = (own: Episode, name: string, started: readonly Lineage[], definitions: unknown) => ({
    schema_version: "ATIF-v1.8",
    session_id: withRun(run, episode.groupId),
    trajectory_id: name,
    agent: {
      name: "trainable-agents",
      version: "1",
      ...(definitions === null ? {} : { tool_definitions: definitions }),
    },
    steps: stepsOf(own),
    final_metrics: usageOf(own),
    subagent_trajectories: started.length === 0 ? null : started.map(subagent),
  });
  const subagent = (lineage: Lineage): Json => {
    const own = episodeOfLineage(episode, lineage);
    const started = lineages.filter(({ parent }) => parent === lineage.id);
    const made = trajectory(own, `${id}/agent-${lineage.id}`, started, toolsOfSession(own));
    return { ...made, extra: { kind: lineage.kind, turns: lineage.turns } };
  };
  const started = lineages.filter(({ kind, parent }) => kind !== "main" && (parent === null || parent === main?.id));
  const definitions = tools === null ? null : (JSON.parse(tools) as unknown);
  return { ...trajectory(episode, id, started, definitions), extra: factsOf(origin) };
}

/** The part of an episode that one agent of its program had: the last of its conversations, and what all of them cost. */
function episodeOfLineage(episode: Episode, { turns }: Lineage): Episode {
  const own = new Set(turns);
  const events = episode.events.filter((event) => {
    if (event.type === "turn") return own.has(event.turn.index);
    return (
      event.type === "session" || ((event.type === "exchange" || event.type === "agent-reply") && own.has(event.turn))
    );
  });
  const messages = exchangePlaces({ events }).flatMap(([, { messages: added, action }]): Message[] => [
    ...added,
    { role: "assistant", content: action.text, reasoning: null, toolCalls: [] },
  ]);
  return { ...episode, events, messages };
}

function stepsOf(episode: Episode): Json[] {
  const { opening, rest } = conversationOf(episode);
  const calls = modelCalls(episode);
  const steps: Record<string, unknown>[] = [];
  let agent: Record<string, unknown> | null = null;
  for (const [at, message] of [...opening, ...rest].entries()) {
    const { role, content } = message;
    const step_id = steps.length + 1;
    if (role === "tool") {
      if (agent === null) {
        steps.push({ step_id, source: "system", message: content });
        continue;
      }
      const observation = (agent["observation"] ?? { results: [] }) as { readonly results: Json[] };
      const known = listOfCalls(agent).some((call) => call["tool_call_id"] === message.tool_call_id);
      observation.results.push({ source_call_id: known ? message.tool_call_id : null, content });
      agent["observation"] = observation;
    } else if (role === "assistant") {
      agent = { step_id, source: "agent", ...agentFields(message) };
      // Messages that a strategy shows as examples were not written by this agent.
      if (at < opening.length) agent["is_copied_context"] = true;
      else Object.assign(agent, calls.shift() ?? {});
      steps.push(agent);
    } else {
      agent = null;
      steps.push({ step_id, source: role, message: content });
    }
  }
  return steps;
}

function listOfCalls(agent: Record<string, unknown>): readonly Json[] {
  return (agent["tool_calls"] ?? []) as readonly Json[];
}

function agentFields({ content, reasoning_content, tool_calls }: ChatMessage): Json {
  const calls = (tool_calls ?? []).map(({ id, function: { name, arguments: text } }) => ({
    tool_call_id: id,
    function_name: name,
    arguments: argumentsOf(text) ?? {},
    // ATIF requires an object; arguments that are not an object are added as text.
    ...(argumentsOf(text) === null ? { extra: { arguments_text: text } } : {}),
  }));
  return {
    message: content,
    ...(reasoning_content === null ? {} : { reasoning_content }),
    ...(calls.length === 0 ? {} : { tool_calls: calls }),
  };
}

function argumentsOf(text: string): Json | null {
  try {
    const parsed: unknown = JSON.parse(text);
    return typeof parsed === "object" && parsed !== null && !Array.isArray(parsed) ? (parsed as Json) : null;
  } catch {
    return null;
  }
}

/** Usage and tokens of the model call that led to each decision, in order. */
function modelCalls({ events, trajectory }: Episode): Json[] {
  const prompts = promptsOf(trajectory.turns);
  // An outside program may have had further conversations, whose messages are not those of the
  // episode.
  const shown = new Set(exchangePlaces({ events }).map(([, { turn }]) => turn));
  const calls: Json[] = [];
  let call: Json = {};
  for (const event of events) {
    if (event.type === "turn") {
      const { index, sampledTokens, logprobs } = event.turn;
      call = {
        llm_call_count: 1,
        metrics: {
          prompt_tokens: event.usage.promptTokens,
          completion_tokens: sampledTokens.length,
          ...(event.usage.cachedTokens === null ? {} : { cached_tokens: event.usage.cachedTokens }),
          prompt_token_ids: prompts(index),
          completion_token_ids: [...sampledTokens],
          ...(logprobs === null || !logprobs.every(Number.isFinite)
            ? {}
            : { logprobs: Array.from(logprobs, shortestFloat32) }),
        },
      };
    } else if (event.type === "agent-reply") {
      const { inputTokens, outputTokens, cost } = event.usage;
      const known =
        inputTokens + outputTokens > 0 ? { prompt_tokens: inputTokens, completion_tokens: outputTokens } : {};
      call = {
        llm_call_count: event.usage.modelCalls,
        metrics: { ...known, ...(cost === null ? {} : { cost_usd: cost }) },
      };
    } else if (event.type === "decision" || (event.type === "exchange" && shown.has(event.turn))) {
      calls.push(call);
      call = {};
    }
  }
  return calls;
}

/** The token ids before an action. */
function promptsOf(turns: readonly Turn[]): (index: number) => number[] {
  return (index) => {
    const path: Turn[] = [];
    for (let at: number | null = index; at !== null; at = turns[at]?.parent ?? null) path.push(turns[at]!);
    return path
      .toReversed()
      .flatMap((turn, at, all) => [...turn.observationTokens, ...(at === all.length - 1 ? [] : turn.sampledTokens)]);
  };
}

function usageOf({ events }: Episode): Json {
  const agent = events.flatMap((event) => {
    if (event.type === "turn")
      return [{ input: event.usage.promptTokens, output: event.usage.completionTokens, cost: null }];
    if (event.type !== "agent-reply") return [];
    return [{ input: event.usage.inputTokens, output: event.usage.outputTokens, cost: event.usage.cost }];
  });
  const sum = (values: readonly (number | null)[]): number | null =>
    values.includes(null) || values.length === 0 ? null : values.reduce<number>((all, value) => all + (value ?? 0), 0);
  const cost = sum(agent.map(({ cost: one }) => one));
  return {
    total_prompt_tokens: sum(agent.map(({ input }) => input)),
    total_completion_tokens: sum(agent.map(({ output }) => output)),
    ...(cost === null ? {} : { total_cost_usd: cost }),
  };
}

export const inspectColumns = columns({
  id: string("the task"),
  epoch: json<number>("counted by task over the whole log, from 1"),
  input: string("what the user said first"),
  target: string("empty: what is expected, the environment knows"),
  messages: json<readonly Json[]>(),
  output: json<Json>(),
  scores: json<Json>("`reward`, and the grader's other numbers; none of an episode that was not graded"),
  metadata: json<LogFacts>(),
  store: json<Json>(),
  events: json<readonly []>(),
  model_usage: json<Json>(),
  total_time: json<number>("seconds"),
  error: json<Json | null>(),
  limit: json<Json | null>(),
  uuid: string("the episode"),
});

export type InspectRow = RowOf<typeof inspectColumns>;

/** Names of the limits that inspect knows. */
const inspectLimits: Readonly<Record<string, string>> = {
  max_turns: "message",
  max_tokens: "token",
  context_length: "context",
};

export function toInspectRow(origin: LogOrigin): InspectRow {
  const { episode, run } = origin;
  const { opening, rest } = conversationOf(episode);
  const { reward, failure, grade, stopReason } = episode;
  const messages = [...opening, ...rest].map(inspectMessage);
  const last = messages.findLast((message) => message["role"] === "assistant");
  const { total_prompt_tokens: input, total_completion_tokens: output } = usageOf(episode);
  const isTruncated = episode.outcome === "truncated";
  const usage = { input_tokens: input, output_tokens: output, total_tokens: Number(input ?? 0) + Number(output ?? 0) };
  const explanation = grade?.log ?? null;
  return {
    id: episode.task.id,
    epoch: 1,
    input: opening.find(({ role }) => role === "user")?.content ?? "",
    target: "",
    messages,
    output: {
      model: policyName,
      choices: last === undefined ? [] : [{ message: last, stop_reason: isTruncated ? "max_tokens" : "stop" }],
    },
    scores:
      reward === null
        ? {}
        : {
            reward: { value: reward, ...(explanation === null ? {} : { explanation }) },
            ...Object.fromEntries(Object.entries(grade?.metrics ?? {}).map(([name, value]) => [name, { value }])),
          },
    metadata: factsOf(origin),
    store: {},
    events: [],
    model_usage: input === null ? {} : { [policyName]: usage },
    total_time: episode.events.reduce((sum, event) => sum + durationOf(event), 0) / 1000,
    error: failure === null ? null : { message: failure.message, traceback: failure.cause ?? "", traceback_ansi: "" },
    limit: isTruncated ? { type: inspectLimits[stopReason] ?? "custom", limit: 0 } : null,
    uuid: withRun(run, episode.id),
  };
}

const policyName = "trainable-agents/policy";

function durationOf(event: EpisodeEvent): number {
  return "durationMs" in event ? event.durationMs : 0;
}

function inspectMessage({ role, content, reasoning_content, tool_calls, tool_call_id, name }: ChatMessage): Json {
  if (role === "tool") return { role, content, function: name, ...(tool_call_id === null ? {} : { tool_call_id }) };
  if (role !== "assistant") return { role, content };
  const calls = (tool_calls ?? []).map(({ id, function: { name: called, arguments: text } }) => {
    const values = argumentsOf(text);
    const problem =
      values === null ? { parse_error: `The arguments are not a JSON object: ${text.slice(0, 1000)}` } : {};
    return { id, function: called, arguments: values ?? {}, type: "function", ...problem };
  });
  const parts =
    reasoning_content === null
      ? content
      : [
          { type: "reasoning", reasoning: reasoning_content },
          { type: "text", text: content },
        ];
  return { role, content: parts, source: "generate", ...(calls.length === 0 ? {} : { tool_calls: calls }) };
}

/**
 * Text before and after the samples of a log. `head` is left open: the samples follow it, then
 * `tail`.
 */
export function inspectDocument(facts: { readonly task: string; readonly created: Date; readonly id: string }): {
  readonly head: string;
  /** `rewards`: one per sample, `null` for those that were not graded; `ids`: each task once. */
  readonly tail: (samples: { readonly rewards: readonly (number | null)[]; readonly ids: readonly string[] }) => string;
} {
  const { task, created, id } = facts;
  const time = created.toISOString();
  return {
    head: `{"version":2,"status":"success","samples":[`,
    tail: ({ rewards, ids }) => {
      const graded = rewards.flatMap((reward) => (reward === null ? [] : [reward]));
      const mean = graded.length === 0 ? null : graded.reduce((sum, reward) => sum + reward, 0) / graded.length;
      const metric = mean === null ? {} : { mean: { name: "mean", value: mean, params: {} } };
      const rest = {
        eval: {
          eval_id: id,
          run_id: id,
          task_id: id,
          created: time,
          task,
          task_version: 0,
          task_attribs: {},
          task_args: {},
          dataset: { name: task, samples: ids.length, sample_ids: ids },
          model: policyName,
          model_args: {},
          config: { epochs: Math.max(1, Math.ceil(rewards.length / Math.max(1, ids.length))) },
          packages: {},
        },
        plan: { name: "plan", steps: [], config: {} },
        results: {
          total_samples: rewards.length,
          completed_samples: graded.length,
          scores: [{ name: "reward", scorer: "reward", params: {}, metrics: metric }],
        },
        stats: { started_at: time, completed_at: time, model_usage: {} },
      };
      return `],${JSON.stringify(rest).slice(1)}\n`;
    },
  };
}
