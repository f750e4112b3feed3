// Turns a parsed action into a decision: the closed taxonomy of problems, the problem policy for
// each of them, and the feedback that a policy reads when its action was not carried out. Pure.
// Parsers report syntax; calls are validated here. Feedback is short, names the tool and the place,
// and does not describe the syntax of calls, which differs between model families and is in the
// prompt. Only a call in another format is answered with an example, which the parser provides.

import {
  type ActionProblem,
  type ActionProblemCode,
  type CallDecision,
  ConfigurationError,
  type Decision,
  type ParsedAction,
  type ParseProblem,
  type Tool,
  type ToolCall,
} from "../core/index.ts";
import { type JsonObject, JsonSyntaxError, type JsonValue, parseJson } from "../python-semantics/json/index.ts";
import { findViolation } from "./argument-validator.ts";

export type DecideOptions = {
  readonly tools: readonly Tool[];
  readonly argumentErrors: "environment" | "loop";
  /** Default: "loop". */
  readonly unknownTools?: "environment" | "loop";
  readonly policy: ProblemPolicy;
  /** "several" carries out all calls of an action, "one" only the first. Default: "one". */
  readonly calls?: "one" | "several";
};

/** Decides about an action; never throws on model output. */
export function decideAction(action: ParsedAction, options: DecideOptions): Decision {
  const [call] = action.toolCalls;
  // If no call was read, the policy may treat the action as speech.
  const isAboutCalls =
    call !== undefined || action.problems.every((one) => options.policy[asActionProblem(one).code] === "observe");
  if (options.calls === "several" && isAboutCalls && action.isTerminated) {
    const several = decideCalls(action, options);
    if (several !== null) return several;
  }
  return call === undefined ? decideWithoutCall(action, options) : decideCall(action, call, options);
}

function decideWithoutCall(action: ParsedAction, options: DecideOptions): Decision {
  const { policy } = options;
  const parsed = action.problems.map(asActionProblem);
  if (!action.isTerminated) return decideCutOff(action, null, options);
  if (parsed.length > 0) return settle(action, null, parsed, options);
  if (policy["no-call"] === "utterance") return { type: "say", content: action.content, problems: [] };
  return settle(action, null, [{ code: "no-call", toolName: null, detail: "No tool was called." }], options);
}

/**
 * Decides about an action that was cut off. A complete call in it may not be the intended one: more
 * of it, or other calls, could have followed.
 */
function decideCutOff(action: ParsedAction, call: ToolCall | null, options: DecideOptions): Decision {
  const parsed = action.problems.map(asActionProblem);
  // An unfinished call is the same problem as being cut off, so it is reported once.
  const others = parsed.filter(({ code }) => code !== "unterminated-call");
  const toolName = call?.name ?? parsed.find((problem) => problem.toolName !== null)?.toolName ?? null;
  const cutOff = { code: "cut-off", toolName, detail: "The message was cut off because it grew too long." } as const;
  const attempt = call === null ? null : { call, arguments: new Map() };
  return settle(action, attempt, [cutOff], options, others);
}

function decideCall(action: ParsedAction, call: ToolCall, options: DecideOptions): Decision {
  if (!action.isTerminated) return decideCutOff(action, call, options);
  const found: ActionProblem[] = [];
  const count = action.toolCalls.length;
  if (count > 1) {
    found.push({ code: "several-calls", toolName: call.name, detail: `${count} tools were called at once.` });
  }
  const toolArguments = readArguments(call, action.problems);
  if (toolArguments instanceof Map) found.push(...findCallProblems(call, toolArguments, options.tools));
  else found.push(toolArguments);
  const beside = action.problems
    .map(asActionProblem)
    .filter(({ code, toolName }) => !found.some((own) => own.code === code && own.toolName === toolName));
  return settle(
    action,
    { call, arguments: toolArguments instanceof Map ? toolArguments : new Map() },
    found,
    options,
    beside,
  );
}

/**
 * Decides about each call of an action separately, in the order in which they were written; `null`
 * if there is only one.
 */
function decideCalls(action: ParsedAction, options: DecideOptions): Decision | null {
  const { policy, tools } = options;
  const calls = action.toolCalls.map((call): CallDecision => {
    const read = readArguments(call, action.problems);
    const problems = read instanceof Map ? findCallProblems(call, read, tools) : [read];
    const refused = problems.find((problem) => dispositionOf(problem, options, true) !== "forward");
    const feedback = refused === undefined ? null : feedbackOn(refused, tools);
    return { call, arguments: feedback === null ? (read as JsonObject) : null, feedback, problems };
  });
  const reported = action.problems.filter(
    (parsed) =>
      !calls.some(({ problems }) =>
        problems.some((own) => own.code === asActionProblem(parsed).code && own.toolName === parsed.toolName),
      ),
  );
  const unread = reported.filter(
    (problem, at) => isLostCall(problem) && !reported.slice(0, at).some((earlier) => isSameCall(earlier, problem)),
  );
  // Inserted from the last to the first, so that earlier positions stay valid.
  for (const problem of unread.toReversed()) {
    const own = asActionProblem(problem);
    const item = { call: null, arguments: null, feedback: feedbackOn(own, tools), problems: [own] };
    calls.splice(Math.min(problem.callsBefore ?? 0, action.toolCalls.length), 0, item);
  }
  if (calls.length < 2) return null;
  const beside = reported.filter((problem) => !unread.includes(problem)).map(asActionProblem);
  const problems = [...calls.flatMap((one) => one.problems), ...beside];
  for (const type of ["abort", "end"] as const) {
    if (problems.some(({ code }) => policy[code] === type)) return { type, problems };
  }
  return { type: "calls", calls, problems };
}

/** True if the problem comes from an attempted call that could not be read. */
function isLostCall({ code }: ParseProblem): boolean {
  return code !== "spoofed-marker" && code !== "repaired";
}

/** True if two problems belong to one call; two calls may be wrong in the same way. */
function isSameCall(one: ParseProblem, other: ParseProblem): boolean {
  if (!isLostCall(one) || one.code === other.code || one.callsBefore !== other.callsBefore) return false;
  return one.text.includes(other.text) || other.text.includes(one.text);
}

/**
 * Applies the policy. Problems `beside` a call are counted, but of the policy only "end" and
 * "abort" apply to them.
 */
function settle(
  action: ParsedAction,
  attempt: { readonly call: ToolCall; readonly arguments: JsonObject } | null,
  found: readonly ActionProblem[],
  options: DecideOptions,
  beside: readonly ActionProblem[] = [],
): Decision {
  const { policy } = options;
  const problems = [...found, ...beside];
  for (const type of ["abort", "end"] as const) {
    if (problems.some(({ code }) => policy[code] === type)) return { type, problems };
  }
  for (const problem of found) {
    const disposition = dispositionOf(problem, options, attempt !== null);
    if (disposition === "utterance") return { type: "say", content: action.content, problems };
    if (disposition === "observe") {
      const feedback = feedbackOn(problem, options.tools);
      return { type: "observe", feedback, call: attempt?.call ?? null, problems };
    }
  }
  if (attempt === null) return { type: "say", content: action.content, problems };
  return { type: "call", ...attempt, problems };
}

function dispositionOf(problem: ActionProblem, options: DecideOptions, hasCall: boolean): ProblemDisposition {
  const disposition = options.policy[problem.code];
  const answered = { "schema-violation": options.argumentErrors, "unknown-tool": options.unknownTools } as const;
  const isTheirs =
    hasCall && problem.code in answered && answered[problem.code as keyof typeof answered] === "environment";
  if (isTheirs && disposition === "observe") return "forward";
  // Without a call there is nothing to carry out or to forward.
  return hasCall || disposition === "utterance" ? disposition : "observe";
}

/** A call without arguments has none, as servers and their clients read it, unless it was cut short. */
function readArguments(call: ToolCall, problems: readonly ParseProblem[]): JsonObject | ActionProblem {
  const toolName = call.name;
  const isCut = problems.some((one) => one.code === "unterminated-call" && (one.toolName ?? toolName) === toolName);
  if (!isCut && call.argumentsText.trim() === "") return new Map();
  let value: JsonValue;
  try {
    value = parseJson(call.argumentsText);
  } catch (error) {
    if (!(error instanceof JsonSyntaxError)) throw error;
    return { code: "not-json", toolName, detail: `The arguments are not valid JSON: ${error.pythonMessage}.` };
  }
  if (value instanceof Map) return value;
  return { code: "not-an-object", toolName, detail: "The arguments must be a JSON object." };
}

function findCallProblems(call: ToolCall, toolArguments: JsonObject, tools: readonly Tool[]): ActionProblem[] {
  const tool = tools.find(({ name }) => name === call.name);
  if (tool === undefined) {
    return [{ code: "unknown-tool", toolName: call.name, detail: `There is no tool "${call.name}".` }];
  }
  const violation = findViolation(tool, toolArguments);
  if (violation === null) return [];
  const sentence = violation.detail.charAt(0).toUpperCase() + violation.detail.slice(1);
  return [{ code: "schema-violation", toolName: call.name, detail: `${sentence}.` }];
}

/**
 * Maps a parse problem to the taxonomy of actions, which is about calls: a call that is JSON but
 * not an object (`5`, `["get_order"]`) is as unreadable as one that is not JSON, and a call without
 * a name calls a tool that does not exist. "not-an-object" is reserved for arguments.
 */
function asActionProblem({ code, toolName, detail }: ParseProblem): ActionProblem {
  switch (code) {
    case "not-an-object":
      return { code: "not-json", toolName, detail };
    case "no-name":
      return { code: "unknown-tool", toolName, detail };
    default:
      return { code, toolName, detail };
  }
}

const hint = " Repeat it in the format that the tools section shows.";
/** Text that begins the example at the end of a detail. */
const exampleLead = "Write a call like this:";

/** Maximum number of tools named in a message; longer lists would cost more context than they help. */
const shownTools = 40;

function feedbackOn(problem: ActionProblem, tools: readonly Tool[]): string {
  const call = problem.toolName === null ? "the tool call" : `the call of "${problem.toolName}"`;
  switch (problem.code) {
    case "not-json":
    case "not-an-object":
    case "unterminated-call":
    case "spoofed-marker":
    case "repaired":
      return `Error: ${call} was not carried out. ${problem.detail}${problem.detail.includes(exampleLead) ? "" : hint}`;
    case "other-format":
      return `Error: ${call} was not carried out and nobody read your message. ${problem.detail}`.trimEnd();
    case "unknown-tool":
      return `Error: ${call} was not carried out. ${problem.detail}${problem.detail.includes(exampleLead) ? "\n" : " "}${listTools(tools)}`;
    case "schema-violation":
      return `Error: ${call} was not carried out. ${problem.detail}`;
    case "several-calls":
      return `Error: nothing was carried out. ${problem.detail} Call one tool at a time.`;
    case "cut-off":
      return `Error: nothing was carried out and nobody read your message. ${problem.detail} Be shorter.`;
    case "no-call":
      return `Error: nothing was carried out and nobody read your message. ${problem.detail} ${listTools(tools)}`;
    default:
      return problem.code satisfies never;
  }
}

function listTools(tools: readonly Tool[]): string {
  if (tools.length === 0) return "There are no tools.";
  const names = tools.slice(0, shownTools).map((tool) => tool.name);
  return `The tools are ${names.join(", ")}${tools.length > shownTools ? ", ..." : ""}.`;
}

// Reaction to each kind of problem. A frozen value handed to `decideAction`; every problem is
// counted, whichever reaction is chosen.

/**
 * - `observe`: nothing is carried out; the policy reads the problem, and the episode continues.
 * - `utterance`: the text beside the call goes to the user, and the call is dropped.
 * - `first`: the first call is carried out, and the others are dropped.
 * - `forward`: the call goes to the environment unchanged.
 * - `end`: the episode ends and is graded. `abort`: it ends and is not graded.
 */
export type ProblemDisposition = "observe" | "utterance" | "first" | "forward" | "end" | "abort";

export type ProblemPolicy = Readonly<Record<ActionProblemCode, ProblemDisposition>>;

/**
 * Default reactions. A call that could be read is carried out even if other text of the action is a
 * problem; the policy decides when none could be read.
 *
 * - `not-an-object` and `several-calls` behave as in τ-bench and its trainers, so that results are
 * comparable.
 * - `schema-violation`: "observe" means that the environment or the loop answers, whichever reports
 * argument errors.
 * - `unknown-tool`: "observe" likewise. "forward" reaches only calls that were read as such: those
 * of models behind an API, and sampled ones where the environment answers unknown tools.
 * - `repaired`: the call that repair mode made from a near-miss is carried out; "end" and "abort"
 * are the alternatives.
 * - `no-call`: "utterance" is ordinary speech, which is then not counted as a problem.
 */
export const defaultProblemPolicy: ProblemPolicy = Object.freeze({
  "not-json": "observe",
  "not-an-object": "utterance",
  "unknown-tool": "observe",
  "schema-violation": "observe",
  "several-calls": "first",
  "unterminated-call": "observe",
  "spoofed-marker": "observe",
  "other-format": "observe",
  repaired: "forward",
  "cut-off": "observe",
  "no-call": "utterance",
});

const general: readonly ProblemDisposition[] = ["observe", "utterance", "end", "abort"];

/**
 * The default policy with changes. Throws a `ConfigurationError` for an unknown code, or a
 * disposition that is not allowed for it.
 */
export function createProblemPolicy(changes: Partial<ProblemPolicy> = {}): ProblemPolicy {
  for (const [code, disposition] of Object.entries(changes)) {
    if (!Object.hasOwn(defaultProblemPolicy, code)) {
      const known = Object.keys(defaultProblemPolicy).join(", ");
      throw new ConfigurationError(
        `Cannot set a policy for problem "${code}": there is no such problem; use one of ${known}.`,
      );
    }
    const allowed = dispositionsFor(code as ActionProblemCode);
    if (!allowed.includes(disposition)) {
      throw new ConfigurationError(
        `Cannot handle problem "${code}" with "${disposition}": use one of ${allowed.join(", ")}.`,
      );
    }
  }
  return Object.freeze({ ...defaultProblemPolicy, ...changes });
}

function dispositionsFor(code: ActionProblemCode): readonly ProblemDisposition[] {
  if (code === "repaired") return ["forward", "end", "abort"];
  if (code === "several-calls") return ["first", ...general];
  if (code === "schema-violation" || code === "unknown-tool") return ["forward", ...general];
  return general;
}
