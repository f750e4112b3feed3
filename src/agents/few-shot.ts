// Tool calling by a policy that is shown example conversations first. The examples are data of a benchmark, read at run
// time; none are part of this package.

import { type AgentStrategy, ConfigurationError } from "../core/index.ts";
import { JsonSyntaxError, type JsonValue, parseJson } from "../python-semantics/json/index.ts";
import { createRandom } from "../lib/random.ts";
import { createToolCalling, type ToolCallingOptions } from "./tool-calling.ts";

export type FewShotOptions = ToolCallingOptions & {
  /** Example conversations as text; see {@link parseDisplays}. */
  readonly displays?: readonly string[];
  /** How many of them an episode is shown, drawn anew by its seed. Default 5, as in τ-bench. */
  readonly displayCount?: number;
};

/** Throws a `ConfigurationError` when there are fewer displays than are to be shown, or the problem policy does not fit. */
export function createFewShot(options: FewShotOptions = {}): AgentStrategy {
  const { displays = [], displayCount = 5, ...rest } = options;
  if (!Number.isInteger(displayCount) || displayCount < 1) {
    throw new ConfigurationError(
      `Cannot make an agent with strategy "few-shot": displayCount is ${displayCount}, a whole number of at least 1 is needed.`,
    );
  }
  if (displays.length < displayCount) {
    throw new ConfigurationError(
      `Cannot make an agent with strategy "few-shot": there are ${displays.length} displays, ${displayCount} are to be shown; ` +
        "give a file with more of them, or show fewer.",
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
 * The displays in a file of τ-bench's layout: one JSON object a line, with the conversation as text in "messages_display".
 * Throws a `ConfigurationError` that names file and line.
 */
export function parseDisplays(text: string, path: string): string[] {
  return text.split("\n").flatMap((line, index) => {
    if (line.trim() === "") return [];
    const value = readLine(line);
    const display = value instanceof Map ? value.get("messages_display") : undefined;
    if (typeof display === "string") return [display];
    throw new ConfigurationError(
      `Cannot read displays from "${path}", line ${index + 1}: it is no JSON object with a text "messages_display"; correct the line, or name another file.`,
    );
  });
}

function readLine(line: string): JsonValue {
  try {
    return parseJson(line);
  } catch (error) {
    if (error instanceof JsonSyntaxError) return null;
    throw error;
  }
}
