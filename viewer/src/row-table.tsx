// The table of episodes, with columns that the reader chooses.

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { signal } from "@preact/signals";
import type { EpisodeExtract, Mark, MarkSummary, Row } from "../../src/viewer/wire/index.ts";
import { ask, isExported } from "./api.ts";
import { count, duration, ending, money, printable, Reward } from "./format.tsx";
import { useLoaded } from "./load.tsx";
import { amend, go, linkTo } from "./route.ts";

type Column = {
  readonly name: string;
  readonly label: string;
  readonly kind: "number" | "text" | "id";
  /** Shown unless the reader chooses otherwise. */
  readonly isUsual: boolean;
  readonly isSortable: boolean;
  readonly cell: (row: Row, extract: EpisodeExtract | null) => ComponentChildren;
};

const text = (value: string | undefined): string => (value === undefined ? "…" : printable(value));

/** Every column but the number, which is always shown. */
const columns: readonly Column[] = [
  {
    name: "reward",
    label: "reward",
    kind: "number",
    isUsual: true,
    isSortable: true,
    cell: (row) => <Reward row={row} />,
  },
  { name: "asked", label: "what the user asked first", kind: "text", isUsual: true, isSortable: false, cell: (_, found) => text(found?.firstUserText) }, // prettier-ignore
  { name: "said", label: "what the agent said last", kind: "text", isUsual: true, isSortable: false, cell: (_, found) => text(found?.lastAgentText) }, // prettier-ignore
  { name: "sentence", label: "what the grader said", kind: "text", isUsual: true, isSortable: false, cell: (row) => <Sentence row={row} /> }, // prettier-ignore
  { name: "stopReason", label: "ended", kind: "text", isUsual: true, isSortable: true, cell: (row) => printable(ending(row)) }, // prettier-ignore
  { name: "fault", label: "whose fault", kind: "id", isUsual: false, isSortable: false, cell: (row) => <Fault row={row} /> }, // prettier-ignore
  { name: "taskId", label: "task", kind: "id", isUsual: true, isSortable: true, cell: (row) => printable(row.taskId) },
  { name: "turns", label: "turns", kind: "number", isUsual: true, isSortable: true, cell: (row) => row.turns ?? "–" },
  { name: "tokens", label: "tokens", kind: "number", isUsual: false, isSortable: true, cell: (row) => optional(row.tokens) }, // prettier-ignore
  { name: "sampledTokens", label: "sampled tokens", kind: "number", isUsual: false, isSortable: true, cell: (row) => optional(row.sampledTokens) }, // prettier-ignore
  { name: "durationMs", label: "time", kind: "number", isUsual: false, isSortable: true, cell: (row) => duration(row.durationMs) }, // prettier-ignore
  { name: "cost", label: "cost", kind: "number", isUsual: false, isSortable: false, cell: (_, found) => (found === null ? "…" : money(found.cost)) }, // prettier-ignore
];

const optional = (value: number | null): string => (value === null ? "–" : count(value));

function Sentence({ row }: { readonly row: Row }) {
  return (
    <>
      {printable(row.sentence)}
      {Object.entries(row.formatErrors).map(([code, times]) => (
        <span class="tag" key={code}>
          {code}
          {times > 1 ? ` ${times}` : ""}
        </span>
      ))}
    </>
  );
}

function Fault({ row: { fault } }: { readonly row: Row }) {
  return fault === null ? <>–</> : <span title={printable(fault.evidence)}>{fault.fault}</span>;
}

const storageKey = "trainable-agents columns";
const usual = columns.filter(({ isUsual }) => isUsual).map(({ name }) => name);

/** Kept between visits where the browser allows it. */
const chosen = signal<readonly string[]>(storedColumns());

function storedColumns(): readonly string[] {
  try {
    const stored = JSON.parse(localStorage.getItem(storageKey) ?? "null") as unknown;
    return Array.isArray(stored) ? columns.map(({ name }) => name).filter((name) => stored.includes(name)) : usual;
  } catch {
    return usual;
  }
}

function choose(names: readonly string[]): void {
  chosen.value = names;
  try {
    localStorage.setItem(storageKey, JSON.stringify(names));
  } catch {
    // Chosen for this visit only.
  }
}

/** Which columns are shown. */
export function Columns() {
  const names = chosen.value;
  return (
    <details class="columns-choice">
      <summary>columns</summary>
      <div>
        {columns.map(({ name, label }) => {
          const isChosen = names.includes(name);
          return (
            <label key={name}>
              <input
                type="checkbox"
                checked={isChosen}
                onChange={() => choose(isChosen ? names.filter((one) => one !== name) : [...names, name])}
              />{" "}
              {label}
            </label>
          );
        })}
        <button onClick={() => choose(usual)}>the usual ones</button>
      </div>
    </details>
  );
}

type RowTableProps = {
  readonly rows: readonly Row[];
  readonly run: string;
  readonly sort: string;
  readonly marks: MarkSummary["marks"];
};

export function RowTable({ rows, run, sort, marks }: RowTableProps) {
  const shown = columns.filter(({ name }) => chosen.value.includes(name));
  const extracts = useExtracts(run, rows);
  const sorted = (name: string): "ascending" | "descending" | undefined =>
    sort === name ? "ascending" : sort === `-${name}` ? "descending" : undefined;
  const sorter = (name: string, label: string) => (
    <button class="sort" onClick={() => amend({ sort: sort === `-${name}` ? name : `-${name}` })}>
      {label}
      {{ ascending: " ↑", descending: " ↓", none: "" }[sorted(name) ?? "none"]}
    </button>
  );
  return (
    <div class="table" tabIndex={0} role="region" aria-label="Table of episodes">
      <table>
        <thead>
          <tr>
            <th scope="col" class="number" aria-sort={sorted("number")}>
              {sorter("number", "#")}
            </th>
            {shown.map(({ name, label, kind, isSortable }) => (
              <th key={name} scope="col" class={kind} aria-sort={sorted(name)}>
                {isSortable ? sorter(name, label) : label}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={row.number} data-number={row.number} onClick={() => openRow(run, row)}>
              <td class="number">
                <a href={linkTo([run, "episode", row.number])} onClick={(event) => event.stopPropagation()}>
                  {row.number}
                </a>
                <MarkSign mark={marks[row.number]} />
              </td>
              {shown.map(({ name, kind, cell }) => (
                <td key={name} class={name === "sentence" ? "sentence" : kind}>
                  {cell(row, row.extract ?? extracts.get(row.number) ?? null)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function MarkSign({ mark }: { readonly mark: Mark | undefined }) {
  if (mark === undefined) return null;
  return (
    <span class={`mark-sign ${mark.verdict}`} title={printable(mark.why)}>
      <span aria-hidden="true">{mark.verdict === "right" ? "✓" : "✗"}</span>
      <span class="unseen">marked {mark.verdict}</span>
    </span>
  );
}

/** Rows are shown at once; what only the whole episodes say is filled in. */
function useExtracts(run: string, rows: readonly Row[]): ReadonlyMap<number, EpisodeExtract> {
  const [known] = useState(() => new Map<number, EpisodeExtract>());
  const wanted = rows.filter(({ number, extract }) => extract === null && !known.has(number));
  const numbers = wanted.map(({ number }) => number).join(",");
  useLoaded(`extracts ${run} ${numbers}`, async () => {
    if (numbers === "" || isExported()) return known.size;
    type Found = { readonly number: number; readonly extract: EpisodeExtract };
    for (const { number, extract } of await ask<readonly Found[]>("extracts", { run, numbers }))
      known.set(number, extract);
    return known.size;
  });
  return known;
}

/** Opens the row, unless text is being selected. */
function openRow(run: string, row: Row): void {
  if (getSelection()?.isCollapsed !== false) go(linkTo([run, "episode", row.number]));
}
