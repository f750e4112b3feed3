// The cases of a training, before and after: one line each, sampled and greedily. A training's own table shows kinds only, since a
// world has dozens of cases.

import { textTable } from "../../dist/lib/text.js";

/**
 * @param {readonly import("../../dist/learner/index.js").ComparedKind[]} sampled
 * @param {readonly import("../../dist/learner/index.js").ComparedKind[] | null} greedy
 * @returns {string[]} Empty where the environment names no cases.
 */
export function caseTable(sampled, greedy) {
  const rows = sampled.filter(({ scope }) => scope === "case");
  if (rows.length === 0) return [];
  // Wider than a terminal: the table is read in the log of a check.
  return textTable(
    "case | >n | >sampled | >95 % of gain | >greedily | >95 % of gain",
    rows.map((row) => {
      const twin = greedy?.find(({ scope, kind }) => scope === "case" && kind === row.kind);
      return [row.kind, String(row.tasks), ...change(row), ...(twin === undefined ? ["–", "–"] : change(twin))];
    }),
    Infinity,
  );
}

/** @param {import("../../dist/learner/index.js").ComparedKind} row */
function change({ before, after, gainInterval }) {
  const signed = (share) => `${share < 0 ? "" : "+"}${(share * 100).toFixed(1)}`;
  const interval = gainInterval === null ? "" : `${signed(gainInterval.low)} to ${signed(gainInterval.high)}`;
  return [`${(before * 100).toFixed(1)} -> ${(after * 100).toFixed(1)}`, interval];
}
