// The strategies `act` and `react`: tools described in the system message instead of the chat
// template, actions read from text, results returned as user messages. An action is the text after
// the last `Action:`, a call if it is JSON and speech otherwise; calls are validated as in every
// other strategy. The two strategies differ only in their instruction.

import {
  type AgentStrategy,
  type Decision,
  type ParsedAction,
  type ParseProblem,
  type Tool,
  toolFromDefinition,
} from "../core/index.ts";
import { nearest } from "../lib/nearest.ts";
import { pythonStrip, unlessRaised } from "../python-semantics/index.ts";
import { dumpJson, fromPlain, type JsonObject, parseJson, parseJsonPrefix } from "../python-semantics/json/index.ts";
import { createProblemPolicy, decideAction, type ProblemPolicy } from "./decide-action.ts";

export type TextStrategyOptions = {
  /**
   * Changes to the default problem policy; arguments that are not an object are observed here
   * unless the changes say otherwise.
   */
  readonly problemPolicy?: Partial<ProblemPolicy>;
  /**
   * Replaces our description of how actions are written. Placed directly after the tools, so it
   * begins with a line break.
   */
  readonly instruction?: string;
};

const actInstruction = `

# How to act
You are the agent. Help the user with the tools above, and keep to the policy at the beginning.

Every message of yours is one action and nothing else, in this form:
Action:
{"name": "<name of a tool>", "arguments": {<the arguments of the tool, as JSON>}}

To say something to the user, use the action "respond":
Action:
{"name": "respond", "arguments": {"content": "<what you say>"}}

Begin every message of yours with "Action:". The result of a tool is the next message. Take arguments from the conversation or from the output of a tool; never invent them. A program reads what follows "Action:", so it must be one valid JSON object with nothing after it.
`;

/**
 * Acts without written thoughts: each turn is one action in JSON. Throws a `ConfigurationError` for
 * an invalid problem policy.
 */
export const createAct = (options: TextStrategyOptions = {}): AgentStrategy =>
  createTextStrategy("act", { instruction: actInstruction, ...options });

const reactInstruction = `

# How to act
You are the agent. Help the user with the tools above, and keep to the policy at the beginning.

Every message of yours is one thought and one action, in this form:
Thought:
<one line: what you know, and what follows from it>
Action:
{"name": "<name of a tool>", "arguments": {<the arguments of the tool, as JSON>}}

To say something to the user, use the action "respond":
Thought:
<one line>
Action:
{"name": "respond", "arguments": {"content": "<what you say>"}}

Only you read the thought. Begin every message of yours with "Thought:". The result of a tool is the next message. Take arguments from the conversation or from the output of a tool; never invent them. A program reads what follows "Action:", so it must be one valid JSON object with nothing after it.
`;

/**
 * Writes a thought before each action (Yao et al. 2022). The thought stays in the history; the user
 * never sees it. Throws a `ConfigurationError` for an invalid problem policy.
 */
export const createReact = (options: TextStrategyOptions = {}): AgentStrategy =>
  createTextStrategy("react", { instruction: reactInstruction, ...options });

function createTextStrategy(
  name: string,
  { instruction, problemPolicy }: TextStrategyOptions & { readonly instruction: string },
): AgentStrategy {
  const policy = createProblemPolicy({ "not-an-object": "observe", ...problemPolicy });
  // Speech without content cannot be forwarded to an environment.
  const speechPolicy: ProblemPolicy =
    policy["schema-violation"] === "forward" ? { ...policy, "schema-violation": "observe" } : policy;
  return {
    name,
    open: ({ guidelines, tools, firstUtterance }) => ({
      messages: [
        {
          role: "system",
          content: systemText(
            guidelines,
            tools.map(({ definition }) => definition),
            instruction,
          ),
        },
        { role: "user", content: firstUtterance },
      ],
      tools: [],
    }),
    decide: (action, { tools, argumentErrors, unknownTools = "loop", turn }): Decision => {
      const read = readTextAction(action, turn, [...tools, respondTool]);
      const isSpeech = read.toolCalls[0]?.name === respondName;
      const decision = decideAction(read, {
        tools: [respondTool, ...tools],
        argumentErrors: isSpeech ? "loop" : argumentErrors,
        unknownTools,
        policy: isSpeech ? speechPolicy : policy,
      });
      if (decision.type === "observe") return withExample(decision, [...tools, respondTool]);
      if (!isSpeech || decision.type !== "call") return decision;
      const content = decision.arguments.get("content");
      return { type: "say", content: typeof content === "string" ? content : "", problems: decision.problems };
    },
    observe: (decision, observation) => ({
      role: "user",
      // Feedback to what was not carried out is the output of no tool.
      content: decision.type === "call" ? `${resultMarker} ${observation}` : observation,
    }),
  };
}

/** System message in the layout of the τ-bench reference; the JSON is Python's, byte for byte. */
function systemText(guidelines: string, definitions: Parameters<typeof dumpJson>[0][], instruction: string): string {
  return `${guidelines}\n#Available tools\n${dumpJson(definitions, { ensureAscii: true })}${instruction}`;
}

/** Name of the action by which a policy speaks to the user. */
const respondName = "respond";

/** The action for speech, validated and listed like a tool. */
const respondTool: Tool = toolFromDefinition(
  fromPlain({
    type: "function",
    function: {
      name: respondName,
      parameters: { type: "object", properties: { content: { type: "string" } }, required: ["content"] },
    },
  }) as JsonObject,
);

/** Marker that text strategies write before a call. */
export const actionMarker = "Action:";

/**
 * Marker before the output of a tool, which the policy reads as a message of the user. The prompt does
 * not name it: small models begin their own messages with a marker that it quotes.
 */
const resultMarker = "API output:";

/**
 * Parses the action from its text: at most one call, with the parsed part as `content`. Never
 * throws.
 *
 * A part that is not JSON is speech, unless it contains a call: of a tool as JSON beside other text,
 * or in the syntax of the model's family, which is not part of this prompt. The output of a tool
 * that the policy wrote itself is not speech either. A user cannot read any of them, so the policy
 * is shown the right form instead.
 */
function readTextAction(action: ParsedAction, turn: number, tools: readonly Tool[]): ParsedAction {
  const text = spokenText(action);
  const at = text.lastIndexOf(actionMarker);
  const content = pythonStrip(at < 0 ? text : text.slice(at + actionMarker.length));
  const read = (changes: Partial<ParsedAction>): ParsedAction => ({
    ...action,
    content,
    toolCalls: [],
    problems: [],
    ...changes,
  });
  const problem = (code: ParseProblem["code"], detail: string): ParsedAction =>
    read({ problems: [{ code, text: content, toolName: null, detail }] });

  const value = unlessRaised(null, () => parseJson(content));
  if (value === undefined) {
    const inside = findCall(content, tools);
    if (inside !== null) {
      const detail = `It had other text beside its JSON. ${exampleOf(inside.name, inside.argumentsText)}`;
      return read({ problems: [{ code: "other-format", text: content, toolName: inside.name, detail }] });
    }
    const example = exampleFor(tools[0]!);
    if (content.startsWith(resultMarker)) {
      return problem("not-json", `Only tools write "${resultMarker}", and none was called. ${example}`);
    }
    // A call that was begun, e.g. one that lacks its last brace.
    const isBegun = at >= 0 ? content.startsWith("{") : /^\{\s*"name"\s*:/.test(content);
    if (action.toolCalls.length === 0 && !isBegun) return read({});
    return problem("not-json", `A call follows "${actionMarker}" as one JSON object. ${example}`);
  }
  if (!(value instanceof Map)) {
    return problem("not-an-object", 'An action is one JSON object with "name" and "arguments".');
  }
  const name = value.get("name");
  if (typeof name !== "string") return problem("no-name", 'The action has no "name".');
  const argumentsText = dumpJson(value.get("arguments") ?? null);
  return read({ toolCalls: [{ id: `call_${turn}_0`, name, argumentsText }] });
}

/** Maximum number of places at which a call is looked for: each may cost as much as the whole text. */
const mostPlaces = 32;

/** The first call of one of the tools in a text; `null` if there is none. JSON within other JSON is data. */
function findCall(
  text: string,
  tools: readonly Tool[],
): { readonly name: string; readonly argumentsText: string } | null {
  for (let [places, at] = [0, text.indexOf("{")]; at !== -1 && places < mostPlaces; places++) {
    const json = parseJsonPrefix(text, at);
    if (json.type === "value" && json.value instanceof Map) {
      const name = json.value.get("name");
      const given = json.value.get("arguments");
      if (typeof name === "string" && given instanceof Map && tools.some((tool) => tool.name === name))
        return { name, argumentsText: dumpJson(given) };
    }
    at = text.indexOf("{", json.type === "value" ? json.end : at + 1);
  }
  return null;
}

const exampleOf = (name: string, argumentsText: string): string =>
  `Write a call like this:\n${actionMarker}\n{"name": ${JSON.stringify(name)}, "arguments": ${argumentsText}}`;

/** Feedback shows a call in the right form: of the tool that was meant, or the one that is named most like it. */
function withExample(decision: Extract<Decision, { type: "observe" }>, tools: readonly Tool[]): Decision {
  if (decision.feedback.includes(`\n${actionMarker}\n`)) return decision;
  const named = decision.problems.find(({ toolName }) => toolName !== null)?.toolName ?? decision.call?.name ?? "";
  const names = tools.map(({ name }) => name);
  const meant = tools.find(({ name }) => name === (nearest(named, names) ?? names[0]))!;
  return { ...decision, feedback: `${decision.feedback} ${exampleFor(meant)}` };
}

const exampleFor = (tool: Tool): string => exampleOf(tool.name, dumpJson(requiredOf(tool)));

/** The required arguments of a tool, each with dots as its value. */
function requiredOf({ definition }: Tool): JsonObject {
  const body = definition.get("function");
  const parameters = body instanceof Map ? body.get("parameters") : null;
  const required = parameters instanceof Map ? parameters.get("required") : null;
  const names = Array.isArray(required) ? required.filter((name) => typeof name === "string") : [];
  return new Map(names.map((name) => [name, "..."]));
}

/** The text outside of the thinking. Calls that a parser extracted from it are treated as text here. */
function spokenText({ text, reasoning, content, toolCalls }: ParsedAction): string {
  if (toolCalls.length === 0) return content;
  if (reasoning === null) return text;
  const at = text.indexOf(reasoning);
  // Thoughts in several places cannot be cut out as one part.
  return at < 0 ? content : text.slice(at + reasoning.length);
}
