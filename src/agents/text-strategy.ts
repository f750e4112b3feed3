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
import { pythonStrip, unlessRaised } from "../python-semantics/index.ts";
import { dumpJson, fromPlain, type JsonObject, parseJson } from "../python-semantics/json/index.ts";
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

What stands behind "Action:" is read by a program: it must be one valid JSON object. Take arguments from the conversation or from the output of a tool; never invent them. The output of a tool comes back to you as the next message, beginning with "API output:".
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

Nobody but you reads the thought. What stands behind "Action:" is read by a program: it must be one valid JSON object. Take arguments from the conversation or from the output of a tool; never invent them. The output of a tool comes back to you as the next message, beginning with "API output:".
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
      const read = readTextAction(action, turn);
      const isSpeech = read.toolCalls[0]?.name === respondName;
      const decision = decideAction(read, {
        tools: [respondTool, ...tools],
        argumentErrors: isSpeech ? "loop" : argumentErrors,
        unknownTools,
        policy: isSpeech ? speechPolicy : policy,
      });
      if (!isSpeech || decision.type !== "call") return decision;
      const content = decision.arguments.get("content");
      return { type: "say", content: typeof content === "string" ? content : "", problems: decision.problems };
    },
    observe: (decision, observation) => ({
      role: "user",
      content: decision.type === "say" ? observation : `API output: ${observation}`,
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
 * Parses the action from its text: at most one call, with the parsed part as `content`. Never
 * throws.
 *
 * A part that is not JSON is speech, unless the policy made a call in its model family's own
 * syntax: that syntax is not part of this prompt, and a user cannot read it.
 */
function readTextAction(action: ParsedAction, turn: number): ParsedAction {
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
    if (action.toolCalls.length === 0) return read({});
    return problem("not-json", `A call stands behind "${actionMarker}", as one JSON object and in no other form.`);
  }
  if (!(value instanceof Map)) {
    return problem("not-an-object", 'An action is one JSON object with "name" and "arguments".');
  }
  const name = value.get("name");
  if (typeof name !== "string") return problem("no-name", 'The action has no "name".');
  const argumentsText = dumpJson(value.get("arguments") ?? null);
  return read({ toolCalls: [{ id: `call_${turn}_0`, name, argumentsText }] });
}

/** The text outside of the thinking. Calls that a parser extracted from it are treated as text here. */
function spokenText({ text, reasoning, content, toolCalls }: ParsedAction): string {
  if (toolCalls.length === 0) return content;
  if (reasoning === null) return text;
  const at = text.indexOf(reasoning);
  // Thoughts in several places cannot be cut out as one part.
  return at < 0 ? content : text.slice(at + reasoning.length);
}
