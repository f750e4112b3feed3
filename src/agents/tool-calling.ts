// The strategy of most trained agents: tools in the chat template's own form, one call or message
// per turn; the instruction for their use; and the same strategy with example conversations in the
// prompt. Examples are data of a benchmark, read at run time; none are part of this package.

import { type AgentStrategy, callsOf, type Message, ConfigurationError } from "../core/index.ts";
import { createRandom } from "../lib/random.ts";
import { unlessRaised } from "../python-semantics/index.ts";
import { parseJson } from "../python-semantics/json/index.ts";
import { createProblemPolicy, decideAction, type ProblemPolicy } from "./decide-action.ts";

export type ToolCallingOptions = {
  /** Changes to the default problem policy. */
  readonly problemPolicy?: Partial<ProblemPolicy>;
  /**
   * "several": all calls of a turn are carried out in order, each with its own observation; a wrong
   * call does not undo the others, and one that ends the episode is the last. "one": the problem
   * `several-calls` decides what happens to them. Default: "one".
   */
  readonly calls?: "one" | "several";
};

/** Throws a `ConfigurationError` for an invalid problem policy. */
export function createToolCalling(options: ToolCallingOptions = {}): AgentStrategy {
  const policy = createProblemPolicy(options.problemPolicy);
  const { calls: wanted = "one" } = options;
  return {
    name: "tool-calling",
    open: ({ guidelines, tools, firstUtterance }) => ({
      messages: [
        { role: "system", content: guidelines },
        { role: "user", content: firstUtterance },
      ],
      tools,
    }),
    decide: (action, { calls = "several", ...given }) =>
      decideAction(action, { ...given, policy, calls: calls === "one" ? "one" : wanted }),
    observe: (decision, observation, nth = 0): Message => {
      if (decision.type === "say") return { role: "user", content: observation };
      // Feedback is a tool message even if no call could be read. User messages come only from the
      // user, so a policy never learns that customers complain about JSON; and templates that strip
      // thinking at each user turn keep it.
      const { call, problems } = callsOf(decision)[nth] ?? { call: null, problems: decision.problems };
      const attempted = problems.find(({ toolName }) => toolName !== null)?.toolName;
      return {
        role: "tool",
        content: observation,
        name: call?.name ?? attempted ?? "unknown",
        callId: call?.id ?? null,
      };
    },
  };
}

/** The sentence of the Qwen templates that the instruction replaces. */
const replacedSentence = "You may call one or more functions to assist with the user query.";

export const defaultToolInstruction =
  "In every turn, call at most one function. " +
  "Only a function call changes anything: to make, modify or cancel something, call the function that does it. " +
  "The result of a call is shown to you before your next turn; " +
  "never tell the user that something is done before a result says so.";

/**
 * An edit for a renderer's `promptEdits` that replaces a sentence of the template with an
 * instruction. Default of `replace`: the sentence of Qwen's templates.
 */
export function toolInstructionEdit(
  instruction: string = defaultToolInstruction,
  replace: string = replacedSentence,
): {
  readonly replace: string;
  readonly with: string;
} {
  return { replace, with: instruction };
}

export type FewShotOptions = ToolCallingOptions & {
  /** Example conversations as text; see {@link parseDisplays}. */
  readonly displays?: readonly string[];
  /** Number of displays that an episode is shown, drawn by its seed. Default 5, as in τ-bench. */
  readonly displayCount?: number;
};

/**
 * Throws a `ConfigurationError` for fewer displays than are to be shown, or for an invalid problem
 * policy.
 */
export function createFewShot(options: FewShotOptions = {}): AgentStrategy {
  const { displays = [], displayCount = 5, ...rest } = options;
  if (!Number.isInteger(displayCount) || displayCount < 1) {
    throw new ConfigurationError(
      `Cannot create an agent with strategy "few-shot": displayCount is ${displayCount}, expected a whole number of at least 1.`,
    );
  }
  if (displays.length < displayCount) {
    throw new ConfigurationError(
      `Cannot create an agent with strategy "few-shot": there are ${displays.length} displays, but ${displayCount} should be shown; ` +
        "use a file with more displays, or show fewer.",
    );
  }
  const toolCalling = createToolCalling(rest);
  return {
    ...toolCalling,
    name: "few-shot",
    open: (input) => {
      const drawn = createRandom(input.seed).shuffle(displays).slice(0, displayCount);
      const examples = drawn.map((display, index) => `Example ${index + 1}:\n${display}`).join("\n\n");
      return toolCalling.open({ ...input, guidelines: `${input.guidelines}\n\n${examples}` });
    },
  };
}

/**
 * Reads the displays of a file in τ-bench's layout: one JSON object per line, with the conversation
 * as text in "messages_display". Throws a `ConfigurationError` that names file and line.
 */
export function parseDisplays(text: string, path: string): string[] {
  return text.split("\n").flatMap((line, index) => {
    if (line.trim() === "") return [];
    const value = unlessRaised(null, () => parseJson(line));
    const display = value instanceof Map ? value.get("messages_display") : undefined;
    if (typeof display === "string") return [display];
    throw new ConfigurationError(
      `Cannot read displays from "${path}", line ${index + 1}: it is not a JSON object with a string "messages_display"; correct the line, or name another file.`,
    );
  });
}
