// Reads an episode back from its JSON object, field by field, so that a damaged record is named and never half believed.

import type {
  ActionProblem,
  Agenda,
  Attempt,
  Decision,
  Episode,
  EpisodeEvent,
  Failure,
  Grade,
  Message,
  ModelUsage,
  ParsedAction,
  Task,
  ToolCall,
  Turn,
} from "../core/index.ts";
import { toPlain } from "../python-semantics/json/plain.ts";
import type { JsonValue } from "../python-semantics/json/value.ts";
import { JsonFields } from "./json-fields.ts";
import { unpackLogprobs, unpackTokens } from "./packed-array.ts";
import {
  actionProblemCodes,
  boundaries,
  historyPolicies,
  outcomes,
  parseProblemCodes,
  stopReasons,
  templateDeviations,
} from "./vocabulary.ts";

/** The episode of a parsed `episodeLine`. Throws a plain error that names the field; `where` says in which record. */
export function episodeFromJson(value: JsonValue, where: string): Episode {
  const fields = new JsonFields(value, where);
  const turns = fields.list("turns", readTurn);
  return {
    id: fields.text("id"),
    groupId: fields.text("groupId"),
    sampleIndex: fields.number("sampleIndex"),
    task: readTask(fields.object("task")),
    seed: fields.number("seed"),
    outcome: fields.oneOf("outcome", outcomes),
    stopReason: fields.oneOf("stopReason", stopReasons),
    failure: fields.nullable("failure", (key) => readFailure(fields.object(key))),
    reward: fields.nullable("reward", (key) => fields.number(key)),
    grade: fields.nullable("grade", (key) => readGrade(fields.object(key))),
    info: fields.jsonObject("info"),
    messages: fields.list("messages", readMessage),
    trajectory: { turns },
    historyPolicy: fields.oneOf("historyPolicy", historyPolicies),
    events: fields.list("events", (event) => readEvent(event, () => turnOf(event, turns))),
    problems: fields.list("problems", readProblem),
  };
}

/** The inverse of `writeEvent`; otherwise as `episodeFromJson`. */
export function eventFromJson(value: JsonValue, where: string): EpisodeEvent {
  const event = new JsonFields(value, where);
  return readEvent(event, () => readTurn(event.object("turn")));
}

function readTask(task: JsonFields): Task {
  return {
    id: task.text("id"),
    environment: task.text("environment"),
    split: task.text("split"),
    index: task.number("index"),
    contentHash: task.text("contentHash"),
    instruction: task.nullable("instruction", (key) => task.text(key)),
    // The goal is the environment's own data, which nothing here interprets.
    agenda: task.nullable("agenda", (key) => toPlain(task.jsonObject(key)) as Agenda),
  };
}

function readFailure(failure: JsonFields): Failure {
  return {
    boundary: failure.oneOf("boundary", boundaries),
    code: failure.text("code"),
    message: failure.text("message"),
    retryable: failure.boolean("retryable"),
    cause: failure.nullable("cause", (key) => failure.text(key)),
  };
}

function readGrade(grade: JsonFields): Grade {
  const metrics = grade.object("metrics");
  return {
    reward: grade.number("reward"),
    metrics: Object.fromEntries([...grade.jsonObject("metrics").keys()].map((name) => [name, metrics.number(name)])),
    log: grade.text("log"),
    info: grade.jsonObject("info"),
  };
}

function readToolCall(call: JsonFields): ToolCall {
  return { id: call.text("id"), name: call.text("name"), argumentsText: call.text("argumentsText") };
}

function readMessage(message: JsonFields): Message {
  const content = message.text("content");
  const role = message.oneOf("role", ["system", "user", "assistant", "tool"]);
  switch (role) {
    case "system":
    case "user":
      return { role, content };
    case "assistant":
      return {
        role,
        content,
        reasoning: message.nullable("reasoning", (key) => message.text(key)),
        toolCalls: message.list("toolCalls", readToolCall),
      };
    case "tool":
      return {
        role,
        content,
        name: message.text("name"),
        callId: message.nullable("callId", (key) => message.text(key)),
      };
    default:
      return role satisfies never;
  }
}

function readTurn(turn: JsonFields): Turn {
  const finish = turn.object("finish");
  const matched = finish.json("matched");
  return {
    index: turn.number("index"),
    parent: turn.nullable("parent", (key) => turn.number(key)),
    observationTokens: unpackTokens(turn.json("observationTokens")),
    // Runs from before these were counted have neither.
    spelledTokens: turn.nullable("spelledTokens", (key) => turn.number(key)) ?? 0,
    deviation: turn.nullable("deviation", (key) => turn.oneOf(key, templateDeviations)),
    sampledTokens: unpackTokens(turn.json("sampledTokens")),
    logprobs: turn.nullable("logprobs", (key) => unpackLogprobs(turn.json(key))),
    finish: {
      reason: finish.oneOf("reason", ["stop", "length", "abort"]),
      matched: typeof matched === "number" || typeof matched === "string" ? matched : null,
      raw: finish.nullable("raw", (key) => finish.text(key)),
    },
    weightSpans: turn.list("weightSpans", (span) => ({
      tokenCount: span.number("tokenCount"),
      dispatch: span.nullable("dispatch", (key) => span.text(key)),
      reply: span.nullable("reply", (key) => span.text(key)),
    })),
    rewriteReason: turn.nullable("rewriteReason", (key) => turn.text(key)),
  };
}

/** An episode has its turns in one list, which its events name. */
function turnOf(event: JsonFields, turns: readonly Turn[]): Turn {
  const turn = turns[event.number("turn")];
  if (turn === undefined) throw new Error(`Cannot read ${event.where}: there is no turn ${event.number("turn")}.`);
  return turn;
}

function readEvent(event: JsonFields, turn: () => Turn): EpisodeEvent {
  const type = event.oneOf("type", [
    "episode-start",
    "user-line",
    "turn",
    "agent-reply",
    "decision",
    "tool-result",
    "grade",
    "episode-end",
  ]);
  switch (type) {
    case "episode-start":
      return { type, episodeId: event.text("episodeId"), taskId: event.text("taskId"), seed: event.number("seed") };
    case "user-line":
      return { type, line: readLine(event.object("line")), durationMs: event.number("durationMs") };
    case "turn": {
      const usage = event.object("usage");
      return {
        type,
        turn: turn(),
        attempts: event.list("attempts", readAttempt),
        usage: {
          promptTokens: usage.number("promptTokens"),
          completionTokens: usage.number("completionTokens"),
          cachedTokens: usage.nullable("cachedTokens", (key) => usage.number(key)),
        },
        durationMs: event.number("durationMs"),
      };
    }
    case "agent-reply":
      return {
        type,
        turn: event.number("turn"),
        attempts: event.list("attempts", readAttempt),
        usage: readUsage(event.object("usage")),
        durationMs: event.number("durationMs"),
      };
    case "decision":
      return {
        type,
        turn: event.number("turn"),
        action: readAction(event.object("action")),
        decision: readDecision(event.object("decision")),
      };
    case "tool-result": {
      const result = event.object("result");
      return {
        type,
        turn: event.number("turn"),
        result: {
          text: result.text("text"),
          isError: result.boolean("isError"),
          endsEpisode: result.boolean("endsEpisode"),
          info: result.jsonObject("info"),
        },
        cutFrom: event.nullable("cutFrom", (key) => event.number(key)),
        durationMs: event.number("durationMs"),
      };
    }
    case "grade":
      return { type, grade: readGrade(event.object("grade")), durationMs: event.number("durationMs") };
    case "episode-end":
      return {
        type,
        stopReason: event.oneOf("stopReason", stopReasons),
        failure: event.nullable("failure", (key) => readFailure(event.object(key))),
      };
    default:
      return type satisfies never;
  }
}

function readLine(line: JsonFields): Extract<EpisodeEvent, { type: "user-line" }>["line"] {
  return {
    type: line.oneOf("type", ["words", "hang-up"]),
    text: line.text("text"),
    usage: readUsage(line.object("usage")),
  };
}

function readUsage(usage: JsonFields): ModelUsage {
  return {
    modelCalls: usage.number("modelCalls"),
    inputTokens: usage.number("inputTokens"),
    outputTokens: usage.number("outputTokens"),
    cost: usage.nullable("cost", (key) => usage.number(key)),
  };
}

function readAttempt(attempt: JsonFields): Attempt {
  return { failure: readFailure(attempt.object("failure")), waitedMs: attempt.number("waitedMs") };
}

function readAction(action: JsonFields): ParsedAction {
  return {
    text: action.text("text"),
    reasoning: action.nullable("reasoning", (key) => action.text(key)),
    content: action.text("content"),
    toolCalls: action.list("toolCalls", readToolCall),
    problems: action.list("problems", (problem) => ({
      code: problem.oneOf("code", parseProblemCodes),
      text: problem.text("text"),
      toolName: problem.nullable("toolName", (key) => problem.text(key)),
      detail: problem.text("detail"),
    })),
    isTerminated: action.boolean("isTerminated"),
  };
}

function readProblem(problem: JsonFields): ActionProblem {
  return {
    code: problem.oneOf("code", actionProblemCodes),
    toolName: problem.nullable("toolName", (key) => problem.text(key)),
    detail: problem.text("detail"),
  };
}

function readDecision(decision: JsonFields): Decision {
  const problems = decision.list("problems", readProblem);
  const type = decision.oneOf("type", ["call", "say", "observe", "end", "abort"]);
  switch (type) {
    case "call":
      return {
        type,
        problems,
        call: readToolCall(decision.object("call")),
        arguments: decision.jsonObject("arguments"),
      };
    case "say":
      return { type, problems, words: decision.text("words") };
    case "observe":
      return {
        type,
        problems,
        feedback: decision.text("feedback"),
        call: decision.nullable("call", (key) => readToolCall(decision.object(key))),
      };
    case "end":
    case "abort":
      return { type, problems };
    default:
      return type satisfies never;
  }
}
