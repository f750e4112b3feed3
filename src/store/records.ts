// The records of a run folder, each described once: see `schema.ts`. Names and shapes equal those
// of the types, with two exceptions: token ids and logprobs are packed, and a turn event of
// `episodes.jsonl` names its turn instead of repeating it.

import {
  type ActionProblem,
  type Agenda,
  type Attempt,
  type CallDecision,
  type ConstrainedTokens,
  type Decision,
  type Episode,
  type EpisodeEvent,
  type Failure,
  type Finish,
  type Grade,
  type GroupRecord,
  type Judgement,
  type Lineage,
  type LineageCredit,
  type Message,
  type ModelUsage,
  type ParsedAction,
  type ParseProblem,
  type RoutedExperts,
  type SamplingMaskPlace,
  type Task,
  type ToolCall,
  type ToolResult,
  type TruncatedSampling,
  type Turn,
  type UserCall,
  type UserLine,
  type UserOutcome,
  type WeightSpan,
  actionProblemCodes,
  boundaries,
  ConfigurationError,
  messageOf,
  outcomes,
  parseProblemCodes,
  stopReasons,
} from "../core/index.ts";
import { parseJson } from "../python-semantics/json/parse-json.ts";
import type { JsonValue } from "../python-semantics/json/value.ts";
import { ByteWriter, type OutgoingLines } from "./byte-writer.ts";
import { endLine } from "./lines.ts";
import {
  boolean,
  json,
  jsonObject,
  list,
  namedValues,
  nullable,
  number,
  oneOf,
  oneOfNumbers,
  optional,
  packedLogprobs,
  packedTokens,
  plainObject,
  record,
  tagged,
  text,
} from "./schema.ts";
import { turnDigests } from "./turn-digests.ts";

const task = record<Task>("Task", {
  id: [text, "unique and stable"],
  environment: text,
  split: text,
  index: [number, "index in its split"],
  contentHash: [text, "SHA-256 of everything that defines the task"],
  instruction: [nullable(text), "prompt of a user simulated by a model"],
  agenda: [nullable(plainObject<Agenda>()), "agenda that an agenda-based user follows"],
});

const failure = record<Failure>("Failure", {
  boundary: oneOf(boundaries),
  code: [text, "stable"],
  message: text,
  retryable: boolean,
  cause: [nullable(text), "the underlying fault"],
});

const attempt = record<Attempt>("Attempt", { failure, waitedMs: number });

const grade = record<Grade>("Grade", {
  reward: number,
  metrics: namedValues(number),
  log: [text, "text for people"],
  info: jsonObject,
  turnRewards: [optional(nullable(list(nullable(number)))), "one per sampled turn, in order"],
});

const toolCall = record<ToolCall>("ToolCall", {
  id: text,
  name: text,
  argumentsText: [text, "as sampled"],
});

const message = tagged<Message, "role">("Message", "role", {
  system: { content: text },
  user: { content: text },
  assistant: {
    content: [text, "the raw action; of an API model its text"],
    reasoning: nullable(text),
    toolCalls: list(toolCall),
  },
  tool: { content: text, name: text, callId: nullable(text) },
});

const finish = record<Finish>("Finish", {
  reason: oneOf<Finish["reason"]>(["stop", "length", "abort"]),
  matched: [
    {
      ...json,
      title: "number, text or null",
      read: (value) => (typeof value === "number" || typeof value === "string" ? value : null),
    },
    "stop token id or stop string",
  ],
  raw: [nullable(text), "as the engine reported it"],
});

const weightSpan = record<WeightSpan>("WeightSpan", {
  tokenCount: number,
  dispatch: [nullable(text), "weight version when the request was sent"],
  reply: [nullable(text), "weight version that the reply reports"],
});

const turn = record<Turn>("Turn", {
  index: number,
  parent: [nullable(number), "the turn whose observation and action this prompt extends"],
  observationTokens: [packedTokens, "what this turn added to the prompt"],
  // Older runs have neither field.
  spelledTokens: [number, "control tokens spelled out by users and tools, encoded as text"],
  deviation: [nullable(oneOf<NonNullable<Turn["deviation"]>>(["other-end-token"])), "from the chat template"],
  sampledTokens: [packedTokens, "the action"],
  logprobs: [nullable(packedLogprobs), "one per sampled token"],
  finish,
  weightSpans: list(weightSpan),
  rewriteReason: [nullable(text), "why the history was not extended"],
  requestIds: [optional(list(text)), "of the engine calls that sampled tokens, in order"],
  routedExperts: [
    optional(
      nullable(
        record<RoutedExperts>("RoutedExperts", {
          offset: [number, "of the first byte in `routed-experts.bin`"],
          rows: [number, "from the parent's last token on; the last token of a sequence has none"],
          layers: number,
          topk: [number, "experts per token and layer"],
          width: [oneOfNumbers([1, 2]), "bytes of a number, little-endian"],
        }),
      ),
    ),
    "where a run keeps the experts of a mixture-of-experts model",
  ],
  truncated: [
    optional(
      nullable(
        record<TruncatedSampling>("TruncatedSampling", {
          logprobs: [oneOf<TruncatedSampling["logprobs"]>(["kept", "whole"]), "over the kept ids, or over all"],
          mask: [
            nullable(
              record<SamplingMaskPlace>("SamplingMaskPlace", {
                offset: [number, "of the first byte in `sampling-masks.bin`"],
                tokens: [number, "sampled tokens of the turn"],
                ids: [number, "kept ids of all tokens together"],
              }),
            ),
            "null: the kept ids were not requested",
          ],
        }),
      ),
    ),
    "sampling by top-k, top-p or min-p",
  ],
  constrained: [
    optional(
      nullable(
        record<ConstrainedTokens>("ConstrainedTokens", {
          ranges: [
            list(record<ConstrainedTokens["ranges"][number]>("TokenRange", { start: number, end: number })),
            "`[start, end)` in `sampledTokens`",
          ],
          allowedMass: [nullable(packedLogprobs), "one per sampled token; null: the engine did not report it"],
          loss: [oneOf<ConstrainedTokens["loss"]>(["train", "mask", "drop"]), "what enters the loss"],
        }),
      ),
    ),
    "tokens that a constraint restricted",
  ],
});

const usage = record<ModelUsage>("ModelUsage", {
  modelCalls: number,
  inputTokens: number,
  outputTokens: number,
  cost: [nullable(number), "US dollars"],
});

const userLine = record<UserLine>("UserLine", {
  type: oneOf<UserLine["type"]>(["utterance", "hang-up", "calls"]),
  text,
  usage,
  calls: [
    optional(list(record<UserCall>("UserCall", { id: text, name: text, arguments: jsonObject }))),
    "of a line of type calls",
  ],
});

const action = record<ParsedAction>("ParsedAction", {
  text: [text, "the whole action without its end token"],
  reasoning: nullable(text),
  content: [text, "content besides reasoning and calls"],
  toolCalls: list(toolCall),
  problems: list(
    record<ParseProblem>("ParseProblem", {
      code: oneOf(parseProblemCodes),
      text,
      toolName: nullable(text),
      detail: text,
      callsBefore: [optional(number), "number of calls that were read before it, if any"],
    }),
  ),
  isTerminated: [boolean, "false: it was truncated"],
});

const problem = record<ActionProblem>("ActionProblem", {
  code: oneOf(actionProblemCodes),
  toolName: nullable(text),
  detail: text,
});

const problems = list(problem);

const decision = tagged<Decision, "type">("Decision", "type", {
  call: { problems, call: toolCall, arguments: jsonObject },
  calls: {
    problems,
    calls: list(
      record<CallDecision>("CallDecision", {
        call: [nullable(toolCall), "null: it could not be read"],
        arguments: [nullable(jsonObject), "null: it is not carried out"],
        feedback: [nullable(text), "shown instead of a result"],
        problems,
      }),
    ),
  },
  say: { problems, content: text },
  observe: { problems, feedback: text, call: nullable(toolCall) },
  end: { problems },
  abort: { problems },
});

const stopReason = oneOf(stopReasons);

type TurnEvent = Extract<EpisodeEvent, { readonly type: "turn" }>;
/** An event of `episodes.jsonl`, which keeps its turns in a separate list. */
type StoredEvent = Exclude<EpisodeEvent, TurnEvent> | (Omit<TurnEvent, "turn"> & { readonly turn: number });

type Exchange = Extract<EpisodeEvent, { readonly type: "exchange" }>;

const attempts = list(attempt);
const durationMs = number;

const toolResult = record<ToolResult>("ToolResult", {
  text: [text, "as the policy reads it"],
  isError: boolean,
  endsEpisode: boolean,
  info: jsonObject,
  reward: [optional(nullable(number)), "reward of this call, in environments that reward each call"],
});

const clientAgent = record<NonNullable<Exchange["client"]>>("ClientAgent", { agent: text, parent: nullable(text) });
const kind = oneOf<Lineage["kind"]>(["main", "sub-agent", "side"]);
const starter = [nullable(number), "the lineage that started it"] as const;
const agent = [nullable(text), "the program's own id"] as const;
const lineage = record<Lineage>("Lineage", { id: number, kind, parent: starter, agent, turns: list(number) });

const otherEvents = {
  "episode-start": { episodeId: text, taskId: text, seed: number },
  "user-line": { line: userLine, durationMs },
  "user-outcome": {
    outcome: record<UserOutcome>("UserOutcome", { results: list(toolResult), endsEpisode: boolean }),
    durationMs,
  },
  "agent-reply": { turn: number, attempts, usage, durationMs },
  decision: { turn: number, action, decision },
  "tool-result": {
    turn: number,
    call: [optional(number), "index of the call, if the turn has several"],
    result: toolResult,
    cutFrom: [nullable(number), "characters of the full text, if it was cut"],
    durationMs,
  },
  session: { session: jsonObject },
  exchange: {
    turn: [number, "of the turn, or of the agent-reply, before it"],
    call: number,
    dialect: oneOf<Exchange["dialect"]>(["chat", "messages", "responses", "completions", "google", "sglang", "vllm"]),
    digest: [text, "SHA-256 of the request"],
    basis: [nullable(number), "the turn whose conversation the messages follow"],
    messages: list(message),
    tools: [nullable(list(jsonObject)), "null: those of the basis"],
    action,
    continues: [nullable(number), "the turn whose text the conversation begins from"],
    ignored: [list(text), "fields of the request that had no effect, by name"],
    response: nullable(
      record<NonNullable<Exchange["response"]>>("ResponseFacts", { hasInstructions: boolean, isStored: boolean }),
    ),
    client: optional(nullable(clientAgent)),
  },
  lineages: { credit: oneOf<LineageCredit>(["all", "main", "by-tokens"]), lineages: list(lineage) },
  program: {
    exitCode: [nullable(number), "null: it was killed"],
    isTimedOut: boolean,
    reward: [nullable(number), "reward that it printed"],
    stdout: [text, "end of the output"],
    stderr: [text, "end of the output"],
    durationMs,
    isPrompted: [optional(boolean), "true: an agent over ACP, whose output is the conversation"],
  },
  delivered: { turn: number },
  undelivered: { turns: list(number) },
  restart: {
    turns: [list(number), "turns of earlier processes; their tokens are dropped"],
    usage: record<Extract<EpisodeEvent, { readonly type: "restart" }>["usage"]>("RestartUsage", {
      agent: usage,
      user: usage,
      judge: usage,
    }),
  },
  judgement: {
    judgement: record<Judgement>("Judgement", {
      grader: [text, "name of the grader, which is that of its metric"],
      model: [text, "the judge"],
      digest: [text, "SHA-256 of the question"],
      answer: [nullable(text), "as the judge wrote it; null: no usable answer"],
      usage,
      attempts,
      isCached: [boolean, "true: the answer came from a file of recorded answers"],
      failure: nullable(failure),
    }),
    ranked: [nullable(list(text)), "for a ranking: the episodes in the order in which they were shown"],
    durationMs,
  },
  grade: { grade, durationMs },
  "close-failure": { failure },
  "episode-end": { stopReason, failure: nullable(failure) },
} as const;

const turnEvent = {
  attempts,
  usage: record<TurnEvent["usage"]>("EngineUsage", {
    promptTokens: number,
    completionTokens: number,
    cachedTokens: nullable(number),
  }),
  durationMs,
} as const;

const storedEvent = tagged<StoredEvent, "type">("EpisodeEvent", "type", {
  ...otherEvents,
  turn: { turn: [number, "index in `turns`; the whole turn in the journal"], ...turnEvent },
});

const journalEvent = tagged<EpisodeEvent, "type">("EpisodeEvent", "type", {
  ...otherEvents,
  turn: { turn, ...turnEvent },
});

type StoredEpisode = Omit<Episode, "trajectory" | "events"> & {
  readonly turns: readonly Turn[];
  readonly digests?: readonly string[];
  readonly events: readonly StoredEvent[];
};

/** A line of `episodes.jsonl`. The id comes first, so that it can be found without parsing the line. */
export const storedEpisode = record<StoredEpisode>("episodes.jsonl", {
  id: text,
  groupId: text,
  sampleIndex: [number, "the episode's place in its group"],
  task,
  seed: number,
  outcome: oneOf(outcomes),
  stopReason,
  failure: [nullable(failure), "present exactly if the outcome is failed"],
  reward: [nullable(number), "null: it was not graded"],
  grade: nullable(grade),
  info: [jsonObject, "info of reset and every step, merged"],
  messages: list(message),
  historyPolicy: oneOf<Episode["historyPolicy"]>(["append-only", "keep-reasoning", "branch", "no-tokens"]),
  problems: [problems, "format errors of all actions"],
  turns: list(turn),
  digests: [optional(list(text)), "SHA-256 of each turn and of those before it, aligned with `turns`"],
  events: list(storedEvent),
});

/** A line of `groups.jsonl`. */
export const storedGroup = record<GroupRecord & { readonly samplesEnd: number }>("groups.jsonl", {
  groupId: text,
  taskId: text,
  groupIndex: [number, "index of the group in the run"],
  decision: oneOf<GroupRecord["decision"]>(["kept", "dropped"]),
  reason: [nullable(text), "why it was dropped"],
  episodeIds: [list(text), "in the order of their place in the group"],
  rewards: [list(nullable(number)), "aligned with `episodeIds`"],
  samplesEnd: [number, "size of `samples.jsonl` with this group's rows"],
});

/** Parses a line of JSON. Throws a `ConfigurationError` if it is not valid JSON. */
export function parseRecord(line: Buffer | string, where: string): JsonValue {
  try {
    return parseJson(line.toString("utf8"));
  } catch (error) {
    throw new ConfigurationError(`Cannot read ${where}: ${messageOf(error)}`, { cause: error });
  }
}

/**
 * The inverse of `episodeLine`, from parsed JSON. Throws a plain error that names the invalid
 * field; `where` names the record.
 */
export function episodeFromJson(value: JsonValue, where: string): Episode {
  const { turns, events, digests: _digests, ...facts } = storedEpisode.read(value, where);
  for (const [at, { index, parent }] of turns.entries()) {
    if (index === at && (parent === null || (Number.isInteger(parent) && parent >= 0 && parent < at))) continue;
    throw new Error(`Cannot read ${where}.turns[${at}]: it is turn ${index} after turn ${parent}.`);
  }
  return {
    ...facts,
    trajectory: { turns },
    events: events.map((event, index) => {
      if (event.type !== "turn") return event;
      const found = turns[event.turn];
      if (found === undefined)
        throw new Error(`Cannot read ${where}.events[${index}]: there is no turn ${event.turn}.`);
      return { ...event, turn: found };
    }),
  };
}

/** The episode as one line, without the line end. Lone surrogates, which UTF-8 cannot hold, are escaped. */
export function episodeLine(episode: Episode): string {
  const writer = new ByteWriter();
  writeEpisode(writer, episode);
  return writer.view().toString();
}

/** Writes the line of {@link episodeLine}. */
export function writeEpisode(writer: ByteWriter, { trajectory, events, ...facts }: Episode): void {
  const stored = events.map((event) => (event.type === "turn" ? { ...event, turn: event.turn.index } : event));
  const digests = turnDigests(facts.id, trajectory);
  storedEpisode.write(writer, { ...facts, turns: trajectory.turns, digests, events: stored });
}

/** Writes one event on its own, with its whole turn. */
export function writeEvent(writer: ByteWriter, event: EpisodeEvent): void {
  journalEvent.write(writer, event);
}

/** The inverse of `writeEvent`; throws like `episodeFromJson`. */
export function eventFromJson(value: JsonValue, where: string): EpisodeEvent {
  return journalEvent.read(value, where);
}

/** A group as it is stored in its file. */
export type StoredGroup = { readonly group: GroupRecord; readonly samplesEnd: number };

/** The inverse of a line of `groups.jsonl`; throws like `episodeFromJson`. */
export function groupFromJson(value: JsonValue, where: string): StoredGroup {
  const { samplesEnd, ...group } = storedGroup.read(value, where);
  return { group, samplesEnd };
}

/**
 * Adds the redacted line of an episode to the waiting lines. Returns its length in bytes and its
 * checksum.
 */
export function addEpisodeLine(
  lines: OutgoingLines,
  episode: Episode,
  redact: (text: string) => string,
): { readonly length: number; readonly crc32: string } {
  let crc32 = "";
  const length = lines.add((writer) => {
    const start = writer.length;
    writeEpisode(writer, episode);
    writer.redact(start, redact);
    crc32 = endLine(writer, start);
  });
  return { length, crc32 };
}
