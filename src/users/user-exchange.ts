// One exchange with a simulated user as data: what it was told, what came back. What the recorder writes and the replayer
// reads; as JSON lines it outlives the process.

import { ConfigurationError, type Failure, type UserLine } from "../core/index.ts";

export type UserExchange = {
  readonly taskId: string;
  readonly seed: number;
  /** Counts the conversations of this task and seed, from 0. */
  readonly take: number;
  /** Place in the conversation; 0 is the first words. */
  readonly index: number;
  /** What the agent said; `null` for the first words. */
  readonly words: string | null;
  readonly answer:
    | { readonly type: "line"; readonly line: UserLine }
    | { readonly type: "failure"; readonly failure: Failure };
};

/** Reads JSON lines; empty lines are skipped. Throws a `ConfigurationError` that names the first line that is no exchange. */
export function parseUserExchanges(text: string): UserExchange[] {
  return text.split("\n").flatMap((line, index) => {
    if (line.trim() === "") return [];
    const exchange = readExchange(line);
    if (exchange !== null) return [exchange];
    throw new ConfigurationError(
      `Cannot read recorded user exchanges: line ${index + 1} is no exchange; give a file that a recording user has written.`,
    );
  });
}

function readExchange(line: string): UserExchange | null {
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch {
    return null;
  }
  return isExchange(value) ? value : null;
}

type Fields = Readonly<Record<string, unknown>>;
const fieldsOf = (value: unknown): Fields => (typeof value === "object" && value !== null ? (value as Fields) : {});

function isExchange(value: unknown): value is UserExchange {
  const { taskId, seed, take, index, words, answer } = fieldsOf(value);
  return (
    typeof taskId === "string" &&
    [seed, take, index].every((number) => typeof number === "number") &&
    (words === null || typeof words === "string") &&
    isAnswer(fieldsOf(answer))
  );
}

function isAnswer({ type, line, failure }: Fields): boolean {
  if (type === "failure") {
    const { boundary, code, message, retryable, cause } = fieldsOf(failure);
    return (
      typeof boundary === "string" &&
      typeof code === "string" &&
      typeof message === "string" &&
      typeof retryable === "boolean" &&
      (cause === null || typeof cause === "string")
    );
  }
  const { type: lineType, text, usage } = fieldsOf(line);
  const { modelCalls, inputTokens, outputTokens, cost } = fieldsOf(usage);
  return (
    type === "line" &&
    (lineType === "words" || lineType === "hang-up") &&
    typeof text === "string" &&
    [modelCalls, inputTokens, outputTokens].every((number) => typeof number === "number") &&
    (cost === null || typeof cost === "number")
  );
}
