// Answers that are not what they should be, in vLLM's shapes: each is one that a client must refuse.

import type { Random } from "../../lib/random.ts";
import { RawText } from "../front/wire-fault.ts";

type Item = Readonly<Record<string, unknown>>;

/** By name, so that a test can go through all of them. Each takes a whole answer, or the last chunk of a stream. */
export const vllmGarblings: Readonly<Record<string, (item: Item) => unknown>> = {
  "a page of a proxy": () => new RawText("<html><body>502 Bad Gateway</body></html>"),
  "half of the text": (item) => new RawText(JSON.stringify(item).slice(0, 40)),
  null: () => null,
  "no choices": (item) => ({ ...item, choices: null }),
  "a choice that is none": (item) => ({ ...item, choices: ["stop"] }),
  "a finish reason nobody knows": (item) => withChoice(item, { finish_reason: "tired" }),
  "logprobs without ids": (item) =>
    withChoice(item, {
      token_ids: null,
      logprobs: { tokens: ids(item).map(() => "a"), token_logprobs: ids(item).map(() => -1) },
    }),
  "ids without logprobs": (item) => withChoice(item, { logprobs: null }),
  "one logprob too few": (item) => withLogprobs(item, ids(item).slice(1)),
  "logprobs of other ids": (item) =>
    withLogprobs(
      item,
      ids(item).map((id) => id + 1),
    ),
  "a logprob that is null": (item) => withLogprobs(item, ids(item), null),
  "a logprob beyond 32 bits": (item) => withLogprobs(item, ids(item), -1e39),
  "an id that is no id": (item) => withChoice(item, { token_ids: ids(item).map(() => -1) }),
  "one id too many": (item) => withChoice(item, { token_ids: [...ids(item), 1] }),
  "a stop at another token": (item) => withChoice(item, { finish_reason: "stop", stop_reason: 4_000_000 }),
};

/** One of the garblings. An answer without tokens has little to spoil; it becomes null. */
export function garbleVllm(random: Random): (item: unknown) => unknown {
  const chosen = vllmGarblings[random.pick(Object.keys(vllmGarblings))]!;
  return (item) => (ids(item as Item).length === 0 ? new RawText("null") : chosen(item as Item));
}

function choice(item: Item): Item {
  return (item["choices"] as readonly Item[] | null)?.[0] ?? {};
}

function ids(item: Item): readonly number[] {
  return (choice(item)["token_ids"] ?? []) as readonly number[];
}

function withChoice(item: Item, change: Item): Item {
  return { ...item, choices: [{ ...choice(item), ...change }] };
}

/** Logprobs in the form the answer has, of these ids. */
function withLogprobs(item: Item, tokens: readonly number[], logprob: number | null = -1): Item {
  const names = tokens.map((id) => `token_id:${id}`);
  const known = choice(item)["logprobs"] as Item | null;
  const logprobs =
    known !== null && "content" in known
      ? { content: names.map((token) => ({ token, logprob })) }
      : { tokens: names, token_logprobs: names.map(() => logprob) };
  return withChoice(item, { logprobs });
}
