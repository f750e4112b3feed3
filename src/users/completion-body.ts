// Reads the body of an OpenAI-compatible chat completion. Servers differ in what they leave out; nothing here throws.

/** `null`: the server did not say. */
export type ReportedTokens = { readonly input: number | null; readonly output: number | null };

export type Completion =
  | { readonly type: "text"; readonly text: string; readonly tokens: ReportedTokens }
  /** Some gateways answer 200 and put the status of the server behind them into the body. */
  | { readonly type: "refused"; readonly status: number }
  /** `problem` continues "its answer ...". */
  | { readonly type: "unreadable"; readonly problem: string };

export function readCompletion(body: string): Completion {
  let value: unknown;
  try {
    value = JSON.parse(body);
  } catch {
    return { type: "unreadable", problem: "is not JSON" };
  }
  const reply = asRecord(value);
  if (reply["error"] !== undefined && reply["error"] !== null) {
    const status = asRecord(reply["error"])["code"];
    if (typeof status === "number" && status >= 400 && status < 600) return { type: "refused", status };
    return { type: "unreadable", problem: "is an error" };
  }
  const choice: unknown = Array.isArray(reply["choices"]) ? reply["choices"][0] : undefined;
  const message = asRecord(choice)["message"];
  if (typeof message !== "object" || message === null) {
    return { type: "unreadable", problem: 'has no "choices[0].message"' };
  }
  const usage = asRecord(reply["usage"]);
  return {
    type: "text",
    text: textOf(asRecord(message)["content"]),
    tokens: { input: asCount(usage["prompt_tokens"]), output: asCount(usage["completion_tokens"]) },
  };
}

/** The words of a content: a string, or the text parts of a list; "" when there are none (a refusal, an empty reply). */
function textOf(content: unknown): string {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return "";
  return content
    .map((part) => asRecord(part)["text"])
    .filter((text) => typeof text === "string")
    .join("");
}

function asRecord(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
}

function asCount(value: unknown): number | null {
  return typeof value === "number" && Number.isFinite(value) && value >= 0 ? value : null;
}
