// The words and the wait in an answer that refuses, whatever its shape: servers, their frameworks and the proxies before them
// each have their own.

/** The server's words in a body of any of its shapes: nested, flat, a string under "error", or plain text. */
export function serverMessage(body: string): string {
  let value: unknown;
  try {
    value = JSON.parse(body);
  } catch {
    return body;
  }
  return messageIn(value) ?? body;
}

/** The words in an error value, with its code when that is a word too; `null` when there are none. */
export function messageIn(value: unknown): string | null {
  if (typeof value === "string") return value;
  if (typeof value !== "object" || value === null) return null;
  const fields = value as Readonly<Record<string, unknown>>;
  for (const name of ["message", "error", "detail"]) {
    const field = Object.hasOwn(fields, name) ? fields[name] : undefined;
    if (typeof field === "string") return withCode(field, fields["code"]);
    if (name === "error" && typeof field === "object" && field !== null) return messageIn(field);
    if (field !== undefined && field !== null) return JSON.stringify(field);
  }
  return null;
}

/**
 * The wait that a `retry-after` header asks for, in milliseconds; `null` when it asks for none. A date is measured from the
 * server's own `date` header, so that two clocks need not agree.
 */
export function parseRetryAfter(value: string | null, serverDate: string | null): number | null {
  if (value === null) return null;
  const text = value.trim();
  if (/^\d{1,9}(\.\d+)?$/.test(text)) return Math.round(Number(text) * 1000);
  const wait = Date.parse(text) - Date.parse(serverDate ?? "");
  return Number.isNaN(wait) ? null : Math.max(0, wait);
}

/** A code in words may be all that tells one refusal from another; one in numbers is the status once more. */
function withCode(words: string, code: unknown): string {
  return typeof code === "string" && code !== "" && !words.includes(code) ? `${words} (${code})` : words;
}
