// The runs, trainings and logs below a folder, newest first; two that are ticked are compared.

import { useRef, useState } from "preact/hooks";
import type { HomeEntry, HomePage } from "../../src/viewer/wire/index.ts";
import { ask } from "./api.ts";
import { Box } from "./box.tsx";
import { Comparison } from "./compare.tsx";
import { count, interval, money, moment, percent, plural, printable } from "./format.tsx";
import { useLoaded, Waiting } from "./load.tsx";
import { amend, linkTo, route } from "./route.ts";

const pageEntries = 200;
/** Times between two looks: while rates are read, and for new runs. */
const readingMs = 250;
const idleMs = 3000;
const newestFirst = "-startedMs";
/** Tasks of a comparison that are shown above the list, those that flipped first. */
const flippedTasks = 8;

export function Home() {
  const { query } = route.value;
  const filter = query.get("filter") ?? "";
  const sort = query.get("sort") ?? newestFirst;
  const [shown, setShown] = useState(pageEntries);
  const [pace, setPace] = useState(readingMs);
  /** Ticked runs, the baseline first. */
  const [ticked, setTicked] = useState<readonly HomeEntry[]>([]);
  const latest = useRef<{ readonly key: string; readonly page: HomePage } | null>(null);
  const key = `home ${filter} ${sort} ${shown}`;
  const list = useLoaded(
    key,
    async () => {
      const since = latest.current?.key === key ? latest.current.page.version : null;
      const found = await ask<HomePage | { unchanged: true }>("home", { filter, sort, count: shown, since });
      if (!("unchanged" in found)) latest.current = { key, page: found };
      const { page } = latest.current!;
      setPace(page.isReading ? readingMs : idleMs);
      return page;
    },
    pace,
  );
  const tick = (entry: HomeEntry): void => {
    const isTicked = ticked.some((one) => one.key === entry.key);
    // A third one takes the place of the second.
    setTicked(isTicked ? ticked.filter((one) => one.key !== entry.key) : [...ticked.slice(0, 1), entry]);
  };
  return (
    <main>
      <h1>Runs</h1>
      <Box
        initial={filter}
        label="Filter runs by words: a name, an environment, a model, a status"
        placeholder="retail   ·   qwen live   ·   training"
        onSubmit={(text) => amend({ filter: text.trim() })}
      />
      <Waiting state={list}>
        {(page) => (
          <>
            <Said page={page} />
            <Chosen ticked={ticked} clear={() => setTicked([])} />
            {page.entries.length > 0 && <Entries page={page} sort={sort} ticked={ticked} tick={tick} />}
            {page.entries.length < page.matched && page.entries.length < 1000 && (
              <button class="more" onClick={() => setShown(shown + 400)}>
                show more
              </button>
            )}
          </>
        )}
      </Waiting>
    </main>
  );
}

function Said({ page: { folder, matched, total, isReading, notes } }: { readonly page: HomePage }) {
  return (
    <>
      <p class="quiet" role="status">
        {matched === total ? plural(total, "run") : `${count(matched)} of ${plural(total, "run")}`} below{" "}
        <code>{printable(folder)}</code>
        {isReading && " · reading rates …"}
        {matched !== total && (
          <>
            {" "}
            <button class="sort" onClick={() => amend({ filter: null })}>
              show all
            </button>
          </>
        )}
      </p>
      {total === 0 && (
        <p class="empty">
          Nothing is here yet. Runs appear when they begin: <code>npx trainable-agents rollout</code>, <code>eval</code>{" "}
          or <code>train</code>, and so do logs of inspect, verifiers, slime, ATIF, τ-bench and τ²-bench.
        </p>
      )}
      {notes.map((note) => (
        <p class="warning" key={note}>
          {printable(note)}
        </p>
      ))}
    </>
  );
}

/** The ticked runs and their comparison. */
function Chosen({ ticked, clear }: { readonly ticked: readonly HomeEntry[]; readonly clear: () => void }) {
  const [first, second] = ticked;
  const areTrainings = first?.kind === "training";
  const areAlike = second === undefined || (second.kind === "training") === areTrainings;
  if (first === undefined) return <p class="chosen-runs quiet">Tick two runs to compare them.</p>;
  return (
    <section class="chosen-runs" aria-label="Comparison">
      <p>
        {second === undefined ? (
          <>
            {printable(first.name)}{" "}
            <span class="quiet">is the baseline; tick a second {areTrainings ? "training" : "run"}.</span>
          </>
        ) : !areAlike ? (
          "A run cannot be compared with a training: tick two of a kind."
        ) : areTrainings ? (
          <a href={linkTo([first.key], { with: second.key })}>
            the curves of {printable(second.name)} over those of {printable(first.name)}
          </a>
        ) : (
          <a href={linkTo(["compare"], { a: first.key, b: second.key })}>
            the whole comparison of {printable(second.name)} with {printable(first.name)}
          </a>
        )}{" "}
        <button class="sort quiet" onClick={clear}>
          untick
        </button>
      </p>
      {second !== undefined && areAlike && !areTrainings && (
        <Comparison key={`${first.key} ${second.key}`} pair={[first.key, second.key]} most={flippedTasks} />
      )}
    </section>
  );
}

const columns: readonly (readonly [name: keyof HomeEntry, label: string, isNumber: boolean])[] = [
  ["name", "run", false],
  ["passRate", "pass rate, 95 %", true],
  ["episodes", "episodes", true],
  ["environment", "environment", false],
  ["policy", "policy", false],
  ["status", "status", false],
  ["cost", "cost", true],
  ["startedMs", "started", false],
];

type EntriesProps = {
  readonly page: HomePage;
  readonly sort: string;
  readonly ticked: readonly HomeEntry[];
  readonly tick: (entry: HomeEntry) => void;
};

function Entries({ page: { entries }, sort, ticked, tick }: EntriesProps) {
  return (
    <div class="table" tabIndex={0} role="region" aria-label="Table of runs">
      <table class="runs">
        <thead>
          <tr>
            <th scope="col">
              <span class="unseen">compare</span>
            </th>
            {columns.map(([name, label, isNumber]) => {
              const isFalling = sort === `-${name}`;
              const isSorted = isFalling || sort === name;
              return (
                <th
                  key={name}
                  scope="col"
                  class={isNumber ? "number" : ""}
                  aria-sort={isSorted ? (isFalling ? "descending" : "ascending") : undefined}
                >
                  <button class="sort" onClick={() => amend({ sort: isFalling ? name : `-${name}` })}>
                    {label}
                    {isSorted ? (isFalling ? " ↓" : " ↑") : ""}
                  </button>
                </th>
              );
            })}
          </tr>
        </thead>
        <tbody>
          {entries.map((entry) => (
            <Entry key={entry.key} entry={entry} isTicked={ticked.some((one) => one.key === entry.key)} tick={tick} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

type EntryProps = { readonly entry: HomeEntry; readonly isTicked: boolean; readonly tick: EntriesProps["tick"] };

function Entry({ entry, isTicked, tick }: EntryProps) {
  const { key, kind, name, environment, policy, status, isLive, fault } = entry;
  const canCompare = status !== "unreadable";
  const isNamed = key === name || key === ".";
  return (
    <tr>
      <td>
        {canCompare && (
          <input
            type="checkbox"
            checked={isTicked}
            onChange={() => tick(entry)}
            aria-label={`compare ${printable(key)}`}
          />
        )}
      </td>
      <td class="run-cell">
        {status === "unreadable" ? printable(name) : <a href={linkTo([key])}>{printable(name)}</a>}{" "}
        {kind !== "run" && <span class="tag plain">{kind === "file" ? "log" : kind}</span>}
        {!isNamed && <div class="quiet path">{printable(key)}</div>}
        {fault !== null && <div class="quiet">{printable(fault)}</div>}
      </td>
      <td class="number">
        {entry.curve.length > 1 && <Spark values={entry.curve} />} {percent(entry.passRate)}{" "}
        <span class="quiet">{interval(entry.interval)}</span>
      </td>
      <td class="number">
        {entry.episodes === null ? "–" : count(entry.episodes)}
        {isLive && entry.planned !== null && <span class="quiet"> of {count(entry.planned)}</span>}
      </td>
      <td>{printable(environment ?? "–")}</td>
      <td>{printable(policy ?? "–")}</td>
      <td>
        <span class={`status ${status}`}>{isLive ? "live" : status}</span>
      </td>
      <td class="number">{money(entry.cost)}</td>
      <td class="moment">{moment(entry.startedMs)}</td>
    </tr>
  );
}

const bars = "▁▂▃▄▅▆▇█";

/** A curve between 0 and 1 in one line of text. */
function Spark({ values }: { readonly values: readonly (number | null)[] }) {
  const known = values.filter((value) => value !== null);
  const [first = null, last = null] = [known[0], known.at(-1)];
  const text = values.map((value) => (value === null ? " " : bars[Math.min(7, Math.floor(value * 8))])).join("");
  return (
    <span
      class="spark"
      role="img"
      aria-label={`pass rate of training, ${percent(first)} at first, ${percent(last)} now`}
    >
      {text}
    </span>
  );
}
