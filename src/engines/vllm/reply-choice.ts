// The tokens of a reply, out of the shapes that vLLM's two endpoints give them: ids in a list, in the logprobs (as
// numbers, or in texts like "token_id:17" before 0.32), or in both; logprobs as a list of entries (as chat has them) or as parallel lists (as completions have them). What is
// said twice must agree.

import { asFields, badReply, isTokenId, readTokenIds, type FailureContext, type Fields } from "../../http/index.ts";

export type ChoiceTokens = {
  readonly sampledTokens: Uint32Array;
  /** Aligned with `sampledTokens`. */
  readonly logprobs: Float32Array;
};

/** Logprobs and, where their tokens are written as ids, those. */
type Logged = { readonly ids: Uint32Array | null; readonly logprobs: Float32Array };

/** Throws an `AttributedError` with code "bad-reply" when a sampled token lacks its id or its logprob. */
export function readTokens(choice: Fields, context: FailureContext): ChoiceTokens {
  const value = choice["token_ids"] ?? null;
  const listed = value === null ? null : readTokenIds(value, "token_ids", context);
  const logged = readLogged(choice["logprobs"] ?? null, context);
  const sampledTokens = listed ?? logged?.ids ?? null;
  if (sampledTokens === null) {
    // An abort before the first token has nothing to list.
    if (choice["finish_reason"] === "abort" && (logged?.logprobs.length ?? 0) === 0) return noTokens;
    throw badReply(context, "it has no token ids", { retryable: false, remedy: "use vLLM 0.10.2 or newer" });
  }
  if (logged === null) {
    if (sampledTokens.length > 0) throw badReply(context, "logprobs are missing");
    return noTokens;
  }
  if (logged.logprobs.length !== sampledTokens.length) {
    throw badReply(context, `it has ${sampledTokens.length} token ids and ${logged.logprobs.length} logprobs`);
  }
  const wrong = logged.ids?.findIndex((id, index) => id !== sampledTokens[index]) ?? -1;
  if (wrong >= 0) {
    throw badReply(
      context,
      `token_ids[${wrong}] is ${sampledTokens[wrong]}, but its logprob is of ${logged.ids?.[wrong]}`,
    );
  }
  return { sampledTokens, logprobs: logged.logprobs };
}

const noTokens: ChoiceTokens = { sampledTokens: new Uint32Array(0), logprobs: new Float32Array(0) };

function readLogged(value: unknown, context: FailureContext): Logged | null {
  if (value === null) return null;
  const fields = asFields(value);
  if (fields === null) throw badReply(context, "logprobs is no object");
  const content = fields["content"];
  if (content === undefined) return readParallel(fields, context);
  // Null in old servers, where there was nothing to report.
  if (content === null) return null;
  if (!Array.isArray(content)) throw badReply(context, "logprobs.content is no list");
  const entries = (content as readonly unknown[]).map(asFields);
  return logs(
    // Since 0.32 the endpoint of ids writes the id itself.
    entries.map((entry) => entry?.["token_id"] ?? entry?.["token"]),
    entries.map((entry) => entry?.["logprob"]),
    context,
  );
}

function readParallel(fields: Fields, context: FailureContext): Logged {
  const { tokens, token_logprobs: numbers } = fields;
  if (!Array.isArray(tokens) || !Array.isArray(numbers)) throw badReply(context, "logprobs has no lists");
  if (tokens.length !== numbers.length) {
    throw badReply(context, `logprobs has ${tokens.length} tokens and ${numbers.length} numbers`);
  }
  return logs(tokens as readonly unknown[], numbers as readonly unknown[], context);
}

function logs(tokens: readonly unknown[], numbers: readonly unknown[], context: FailureContext): Logged {
  const logprobs = new Float32Array(numbers.length);
  for (let index = 0; index < numbers.length; index++) {
    const logprob = numbers[index];
    if (typeof logprob !== "number" || !Number.isFinite(Math.fround(logprob))) {
      throw badReply(context, `the logprob of sampled token ${index} is ${JSON.stringify(logprob)?.slice(0, 40)}`);
    }
    logprobs[index] = logprob;
  }
  return { ids: idsIn(tokens, context), logprobs };
}

/** `null` when the server wrote texts: all of them, because one that looks like an id may be a text too. */
function idsIn(tokens: readonly unknown[], context: FailureContext): Uint32Array | null {
  const ids = new Uint32Array(tokens.length);
  let count = 0;
  for (let index = 0; index < tokens.length; index++) {
    const token = tokens[index];
    if (typeof token !== "string" && !isTokenId(token)) {
      throw badReply(context, `token ${index} of the logprobs is neither an id nor a text`);
    }
    const digits = typeof token === "string" && token.startsWith("token_id:") ? token.slice("token_id:".length) : "";
    const id = typeof token === "number" ? token : /^\d{1,10}$/.test(digits) ? Number(digits) : null;
    if (!isTokenId(id)) continue;
    ids[index] = id;
    count += 1;
  }
  return count === tokens.length ? ids : null;
}
