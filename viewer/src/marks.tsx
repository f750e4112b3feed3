// The marks of a run on its page: how many there are, and how far the reward, judges and the
// attribution of faults agree with them.

import type { ComponentChildren } from "preact";
import type { Interval, JudgeAgreement, Reason, Summary } from "../../src/viewer/wire/index.ts";
import { isExported, linkToAnswer, readOnlyReason } from "./api.ts";
import { count, interval, percent, plural, printable } from "./format.tsx";
import { Table } from "./table.tsx";

type MarksProps = {
  readonly summary: Summary;
  /** Links that filter. */
  readonly chips: (reasons: readonly Reason[]) => ComponentChildren;
};

export function Marks({ summary: { facts, marks, episodes }, chips }: MarksProps) {
  const { right, wrong, labels, unknown, unreadable, agreement, fault, file } = marks;
  const reason = readOnlyReason(facts);
  if (episodes === 0) return null;
  if (right + wrong + unknown + unreadable === 0 && fault === null) {
    return (
      <p class="quiet marks-none">
        No episode is marked.{" "}
        {reason ?? "Mark some as right or wrong on their pages, to see how far the reward and judges agree with you."}
      </p>
    );
  }
  const found = [
    { kind: "mark" as const, label: "right", count: right },
    { kind: "mark" as const, label: "wrong", count: wrong },
    { kind: "mark" as const, label: "unmarked", count: episodes - right - wrong },
  ].filter((one) => one.count > 0);
  return (
    <section class="marks" aria-label="Marks">
      {chips(found)}
      {fault !== null && (
        <p class="warning">
          {file} cannot be read: {printable(fault)}.
        </p>
      )}
      {unreadable > 0 && (
        <p class="warning">
          {plural(unreadable, "line")} of {file} cannot be read.
        </p>
      )}
      {unknown > 0 && <p class="quiet">{plural(unknown, "mark")} of episodes that are not in this run.</p>}
      {agreement.length > 0 && <Agreement rows={agreement} />}
      <p class="quiet">
        {plural(labels, "mark")} with a fault
        {labels > 0 && !isExported() && (
          <>
            :{" "}
            <a href={linkToAnswer("labels", { run: facts.key })} download="labels.json">
              labels.json
            </a>
          </>
        )}{" "}
        for <code>eval --labels</code>.{reason !== null && ` ${printable(reason)}`}
      </p>
    </section>
  );
}

function Agreement({ rows }: { readonly rows: readonly JudgeAgreement[] }) {
  const kappa = (value: number): string =>
    value
      .toFixed(2)
      .replace(/^-(?=0\.00$)/, "")
      .replace("-", "−");
  const bounds = (value: Interval | null): string =>
    value === null ? "" : `[${kappa(value.low)} to ${kappa(value.high)}]`;
  return (
    <>
      <h2>Agreement with the marks</h2>
      <Table
        label="Agreement with the marks"
        heads={["judge", "“right” is", "episodes", "tasks", "agrees, 95 %", "kappa, 95 %", "mark → judge"]}
        rows={rows.map((row) => [
          row.judge,
          row.rule,
          count(row.episodes),
          count(row.tasks),
          `${percent(row.share)} ${interval(row.interval)}`,
          row.kappa === null ? "–" : `${kappa(row.kappa)} ${bounds(row.kappaInterval)}`,
          row.counts.map(({ person, judge, episodes }) => `${person} → ${judge} ${count(episodes)}`).join(", "),
        ])}
      />
      <p class="quiet">
        Every task counts once. Kappa is 0 where the agreement is that of chance, and 1 where it is complete.
      </p>
    </>
  );
}
