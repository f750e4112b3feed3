// Kinds of exported rows: how their trainers read them, for the comparison with the record of their
// run. A file's kind is recognised by the columns of its rows.

import {
  digestList,
  factsOf,
  listed,
  nameOf,
  type Numbers,
  type Part,
  type RowKind,
  sampleClaim,
  spanFacts,
  splitClaim,
  textClaim,
  treeClaim,
} from "./check-rows.ts";
import type { RowFields } from "./read-rows.ts";

const needsKeptGroups = true;
const hasTokens = true;

const kinds: readonly (RowKind & { readonly columns: readonly string[] })[] = [
  {
    format: "slime",
    columns: ["tokens", "response_length", "loss_mask", "rollout_log_probs"],
    hasTokens,
    needsKeptGroups,
    claims: (row) => {
      const facts = factsOf(row.value("metadata"), "metadata");
      const tokens = listed(row, "tokens");
      const mask = listed(row, "loss_mask");
      const start = tokens.length - mask.length;
      if (row.value("response_length") !== mask.length)
        throw new Error("its loss_mask has not response_length entries");
      const versions = row.value("weight_versions");
      return [
        sampleClaim(
          facts,
          [
            { type: "tokens", values: tokens, start: 0, isWhole: true },
            { type: "mask", values: mask, start },
            { type: "logprobs", values: row.numbers("rollout_log_probs"), start, of: "sampled", none: 0 },
          ],
          ({ weightRanges }) => [
            ["weight_versions", versions, weightRanges.flatMap(({ reply, dispatch }) => reply ?? dispatch ?? [])],
          ],
        ),
      ];
    },
  },
  {
    format: "verl",
    columns: ["prompt_ids", "response_ids", "response_mask"],
    hasTokens,
    needsKeptGroups,
    claims: (row) => [
      splitClaim(row, factsOf(row.value("extra_fields"), "extra_fields"), {
        prompt: "prompt_ids",
        response: "response_ids",
        mask: "response_mask",
        logprobs: "response_logprobs",
      }),
    ],
  },
  {
    format: "trl",
    columns: ["prompt_ids", "completion_ids", "env_mask"],
    hasTokens,
    needsKeptGroups,
    claims: (row) => [
      splitClaim(row, factsOf(row.value("metadata"), "metadata"), {
        prompt: "prompt_ids",
        response: "completion_ids",
        mask: "env_mask",
        logprobs: "logprobs",
      }),
    ],
  },
  {
    format: "tinker",
    columns: ["model_input", "target_tokens", "mask"],
    hasTokens,
    needsKeptGroups,
    claims: (row) => {
      const facts = factsOf(row.value("metadata"), "metadata");
      const input = listed(row, "model_input");
      const targets = listed(row, "target_tokens");
      if (input.length !== targets.length) throw new Error("its model_input and target_tokens differ in length");
      return [
        sampleClaim(
          facts,
          [
            { type: "tokens", values: input, start: 0, isWhole: false },
            { type: "tokens", values: targets, start: 1, isWhole: true },
            { type: "mask", values: listed(row, "mask"), start: 1 },
            { type: "logprobs", values: row.numbers("logprobs"), start: 1, of: "sampled", none: 0 },
          ],
          spanFacts(facts),
        ),
      ];
    },
  },
  {
    format: "sft-tokens",
    columns: ["input_ids", "labels"],
    hasTokens,
    needsKeptGroups: false,
    claims: (row) => {
      const facts = factsOf(row.value("metadata"), "metadata");
      return [
        sampleClaim(
          facts,
          [
            { type: "tokens", values: listed(row, "input_ids"), start: 0, isWhole: true },
            { type: "labels", values: listed(row, "labels"), start: 0 },
          ],
          spanFacts(facts),
        ),
      ];
    },
  },
  {
    format: "atropos",
    columns: ["tokens", "masks", "scores", "overrides"],
    hasTokens,
    needsKeptGroups,
    claims: (row) => {
      const [tokens = null, masks = null, logprobs = null, overrides = null] = [
        "tokens",
        "masks",
        "inference_logprobs",
        "overrides",
      ].map((name) => row.value(name) as readonly unknown[] | null | undefined);
      if (!Array.isArray(overrides)) throw new Error("it has no overrides");
      if ([tokens, masks, logprobs ?? overrides].some((lists) => lists?.length !== overrides.length))
        throw new Error("its tokens, masks, inference_logprobs and overrides differ in length");
      return overrides.map((one, at) => {
        const facts = factsOf(one, "overrides");
        const parts: readonly Part[] = [
          { type: "tokens", values: numbersOf(tokens?.[at], "tokens"), start: 0, isWhole: true },
          { type: "labels", values: numbersOf(masks?.[at], "masks"), start: 0 },
        ];
        // A group has no logprobs if one of its samples has none.
        if (logprobs === null) return sampleClaim(facts, parts, spanFacts(facts));
        const values = numbersOf(logprobs[at], "inference_logprobs");
        return sampleClaim(
          facts,
          [...parts, { type: "logprobs", values, start: 0, of: "trained", none: 1 }],
          spanFacts(facts),
        );
      });
    },
  },
  { format: "verifiers", columns: ["traces", "env"], hasTokens, needsKeptGroups, claims: (row) => [treeClaim(row)] },
  {
    format: "preferences",
    columns: ["chosen", "rejected", "metadata"],
    hasTokens: false,
    needsKeptGroups: false,
    claims: (row) => {
      const facts = factsOf(row.value("metadata"), "metadata");
      const digests = digestList(facts);
      return ["chosen_episode_id", "rejected_episode_id"].map((name) => {
        const named = nameOf({ ...facts, episode_id: facts[name] });
        const own = digests.filter((one) => one["episode_id"] === named.episodeId);
        const claim = textClaim(
          named,
          own.map(({ turn, digest }) => ({ turn, digest })),
        );
        return { ...claim, pair: JSON.stringify([facts["chosen_episode_id"], facts["rejected_episode_id"], name]) };
      });
    },
  },
  {
    format: "sft",
    columns: ["messages", "metadata"],
    hasTokens: false,
    needsKeptGroups: false,
    claims: (row) => {
      const facts = factsOf(row.value("metadata"), "metadata");
      return [textClaim(nameOf(facts), digestList(facts))];
    },
  },
  {
    format: "atif",
    columns: ["trajectory_id", "extra"],
    hasTokens: false,
    needsKeptGroups: false,
    claims: (row) => {
      const facts = factsOf(row.value("extra"), "extra");
      return [textClaim(nameOf(facts), digestList(facts))];
    },
  },
];

function numbersOf(value: unknown, name: string): Numbers {
  if (Array.isArray(value) && value.every((one) => typeof one === "number")) return value;
  throw new Error(`its field "${name}" is not lists of numbers`);
}

/** The kind of rows that has the columns of this one; `null` if none has. Throws for a line that is not an object. */
export function kindOfRow(row: RowFields): RowKind | null {
  return kinds.find(({ columns }) => columns.every((name) => row.has(name))) ?? null;
}
