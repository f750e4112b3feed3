// Answers that are not what they should be: each is one that a client must refuse, because believing it would train on
// tokens that were not sampled or on numbers that were not reported.

import type { Random } from "../../lib/random.ts";
import { RawText } from "../front/wire-fault.ts";

type Item = Readonly<Record<string, unknown>>;
type Triple = readonly [unknown, unknown, unknown];

/** By name, so that a test can go through all of them. */
export const garblings: Readonly<Record<string, (item: Item) => unknown>> = {
  "a page of a proxy": () => new RawText("<html><body>502 Bad Gateway</body></html>"),
  nothing: () => new RawText(""),
  "half of the text": (item) => new RawText(JSON.stringify(item).slice(0, 40)),
  null: () => null,
  "no meta_info": (item) => without(item, "meta_info"),
  "no ids at all": (item) =>
    without({ ...item, meta_info: without(meta(item), "output_token_logprobs") }, "output_ids"),
  "no finish reason": (item) => withMeta(item, { finish_reason: null }),
  "a finish reason nobody knows": (item) => withMeta(item, { finish_reason: { type: "tired" } }),
  "one logprob too few": (item) => withMeta(item, { output_token_logprobs: triples(item).slice(1) }),
  "a logprob that is null": (item) =>
    withMeta(item, { output_token_logprobs: triples(item).map(([, id, text]) => [null, id, text]) }),
  "logprobs of other ids": (item) =>
    withMeta(item, {
      output_token_logprobs: triples(item).map(([logprob, id, text]) => [logprob, Number(id) + 1, text]),
    }),
  "an id that is no id": (item) => ({ ...item, output_ids: triples(item).map(() => -1) }),
  "one id too many": (item) => ({ ...item, output_ids: [...triples(item).map(([, id]) => id), 1] }),
};

/** One of the garblings. An answer without tokens has little to spoil; it loses its meta_info. */
export function garbleSglang(random: Random): (item: unknown) => unknown {
  const chosen = garblings[random.pick(Object.keys(garblings))]!;
  return (item) => {
    const fields = item as Item;
    return triples(fields).length === 0 ? new RawText("null") : chosen(fields);
  };
}

function meta(item: Item): Item {
  return item["meta_info"] as Item;
}

function withMeta(item: Item, change: Item): Item {
  return { ...item, meta_info: { ...meta(item), ...change } };
}

function without(item: Item, name: string): Item {
  return Object.fromEntries(Object.entries(item).filter(([key]) => key !== name));
}

function triples(item: Item): readonly Triple[] {
  const list = meta(item)["output_token_logprobs"];
  return Array.isArray(list) ? (list as Triple[]) : [];
}
