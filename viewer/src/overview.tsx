// A run on one page: its verdict in a sentence, the reasons why episodes did not pass, its course,
// and the table with one box.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import {
  differenceText,
  type Domain,
  type Interval,
  type MarkSummary,
  type Reason,
  type RowPage,
  type RunFacts,
  type Summary,
  type TrainerCheck,
} from "../../src/viewer/wire/index.ts";
import { ask, isExported } from "./api.ts";
import { RunBox } from "./box.tsx";
import { Chart } from "./chart.tsx";
import { Columns, RowTable } from "./row-table.tsx";
import { count, percent, plural, printable, reward } from "./format.tsx";
import { Hits } from "./hits.tsx";
import { useLoaded, Waiting } from "./load.tsx";
import { Marks } from "./marks.tsx";
import { amend, linkTo, route } from "./route.ts";
import { Table } from "./table.tsx";

const pageRows = 100;
/** Times between two refreshes: of a run in progress, and of one that is still being read. */
const liveMs = 1000;
const readingMs = 250;

export function Overview({ facts }: { readonly facts: RunFacts }) {
  const [pace, setPace] = useState<number | null>(readingMs);
  const latest = useRef<Summary | null>(null);
  const summary = useLoaded(
    `summary ${facts.key}`,
    async () => {
      const found = await ask<Summary | { unchanged: true }>("summary", {
        run: facts.key,
        since: latest.current?.version,
      });
      if (!("unchanged" in found)) latest.current = found;
      const now = latest.current!;
      const isRead = now.read === now.episodes && now.masks.isDone && now.faults?.isDone !== false && now.marks.isDone;
      setPace(!isRead ? readingMs : now.facts.isLive ? liveMs : null);
      return now;
    },
    isExported() ? null : pace,
  );
  return (
    <main>
      <h1 class="unseen">{printable(facts.name)}</h1>
      <Waiting state={summary}>
        {(value) => (
          <>
            <Verdict summary={value} />
            <Faults faults={value.faults} run={facts.key} />
            <Reasons reasons={value.reasons} run={facts.key} />
            <Rates domains={value.domains} />
            <Marks summary={value} chips={(reasons) => <Chips reasons={reasons} run={facts.key} />} />
            <Curves summary={value} />
          </>
        )}
      </Waiting>
      <Episodes
        run={facts.key}
        marks={summary.type === "ready" ? summary.value.marks.marks : {}}
        version={
          summary.type === "ready"
            ? `${summary.value.episodes}-${summary.value.read}-${summary.value.faults?.isDone}`
            : ""
        }
      />
    </main>
  );
}

function Verdict({ summary }: { readonly summary: Summary }) {
  const { facts, interval, masks, episodes, read, neverPassed, tasks, unsuccessful, errored, outcomes } = summary;
  const aborted = outcomes["aborted"] ?? 0;
  const bounds = interval === null ? "" : ` [${Math.floor(interval.low * 100)} to ${Math.ceil(interval.high * 100)}]`;
  return (
    <section class="verdict" aria-label="Verdict">
      <p class="sentence">
        {count(episodes)}
        {facts.planned !== null && facts.planned > episodes ? ` of ${count(facts.planned)}` : ""} episodes,{" "}
        {summary.graded === 0 ? (
          "none graded"
        ) : (
          <>
            <strong>{percent(summary.passRate)} pass</strong>
            <span class="quiet">{bounds}</span>
          </>
        )}
        ,{" "}
        {tasks > 0 && (
          <>
            <a href={linkTo([facts.key, "tasks"], { never: 1 })}>
              {tasks === 1
                ? `its only task ${neverPassed === 1 ? "never passes" : "passes at least once"}`
                : `${count(neverPassed)} of ${count(tasks)} tasks never ${neverPassed === 1 ? "passes" : "pass"}`}
            </a>
            ,{" "}
          </>
        )}
        {count(unsuccessful)} unsuccessful,{" "}
        {errored === 0 ? "0 errored" : <strong class="bad">{count(errored)} errored</strong>},{" "}
        {aborted > 0 && `${count(aborted)} aborted, `}
        <Masks masks={masks} episodes={episodes} facts={facts} />,{" "}
        <span class={`status ${facts.status}`}>{facts.isLive ? "live" : facts.status}</span>
        {read < episodes && <span class="quiet"> (read {count(read)} so far)</span>}
      </p>
      <p class="quiet facts">
        {[
          facts.environment,
          facts.split,
          facts.model,
          facts.engine && `engine ${facts.engine}`,
          facts.startedAt?.slice(0, 16).replace("T", " "),
        ]
          .filter((part) => part)
          .join(" · ")}
        {summary.meanReward !== null && ` · mean reward ${reward(summary.meanReward)}`}
        {facts.status === "killed" && " · its process is gone; resume it with rollout --resume"}
      </p>
      {summary.trainer !== null && <Trainer trainer={summary.trainer} run={facts.key} isDone={masks.isDone} />}
      {facts.missing.map((sentence) => (
        <p class="quiet" key={sentence}>
          {sentence}
        </p>
      ))}
    </section>
  );
}

/** Distance of a trainer from the sampler, with the episode in which it is largest. */
function Trainer({
  trainer: { file, difference, largestIn, missing, bare, problems, unknown },
  run,
  isDone,
}: {
  readonly trainer: TrainerCheck;
  readonly run: string;
  readonly isDone: boolean;
}) {
  const text = differenceText(difference);
  const [first] = problems;
  return (
    <p class="trainer">
      <strong>Trainer's logprobs</strong> ({printable(file)}):{" "}
      {text === null ? "nothing could be compared" : `${plural(difference.tokens, "trained token")}: ${text}`}
      {largestIn !== null && (
        <>
          {" "}
          in <a href={linkTo([run, "episode", largestIn], { t: 1 })}>episode {largestIn}</a>
        </>
      )}
      {!isDone && " so far"}
      {missing > 0 && `; not recorded for ${plural(missing, "trained token")}`}
      {bare > 0 && `; ${plural(bare, "training row")} without a line that can be used`}
      {first !== undefined && (
        <>
          ; see <a href={linkTo([run, "episode", first], { t: 1 })}>episode {first}</a>
        </>
      )}
      {unknown !== null &&
        unknown > 0 &&
        `; ${plural(unknown, "episode")} of the file ${unknown === 1 ? "is" : "are"} not in this run`}
      .
    </p>
  );
}

/**
 * Result of checking masks with the functions that make them, episode by episode, in the
 * background.
 */
function Masks({
  masks,
  episodes,
  facts: { key: run, kind },
}: {
  readonly masks: Summary["masks"];
  readonly episodes: number;
  readonly facts: RunFacts;
}) {
  if (kind === "file" && masks.withoutTokens < episodes) return <span>masks as the file has them</span>;
  const [first] = masks.wrong;
  if (first !== undefined) {
    return (
      <a class="bad" href={linkTo([run, "episode", first], { t: 1 })}>
        masks wrong in {masks.wrong.length} of {count(masks.checked)} episodes
      </a>
    );
  }
  if (!masks.isDone && episodes > 0) return <span>masks in order in {count(masks.checked)} so far</span>;
  if (masks.withoutTokens === episodes) return <span>no tokens recorded</span>;
  return <span>masks in order</span>;
}

function Reasons({ reasons, run }: { readonly reasons: readonly Reason[]; readonly run: string }) {
  if (reasons.length === 0) return null;
  return (
    <section aria-label="Why episodes did not pass">
      <Chips reasons={reasons} run={run} />
    </section>
  );
}

function Chips({ reasons, run }: { readonly reasons: readonly Reason[]; readonly run: string }) {
  const { query } = route.value;
  return (
    <ul class="reasons">
      {reasons.map(({ kind, label, count: times }) => {
        const isChosen = query.get("reason") === label && query.get("kind") === kind;
        return (
          <li key={`${kind} ${label}`}>
            <a
              class={isChosen ? "chip chosen" : "chip"}
              aria-current={isChosen ? "true" : undefined}
              href={isChosen ? linkTo([run]) : linkTo([run], { kind, reason: label })}
            >
              <strong>{count(times)}</strong> <span class="quiet">{kind}</span> {printable(label)}
            </a>
          </li>
        );
      })}
    </ul>
  );
}

/** Whose fault unsuccessful episodes are, as chips that filter. */
function Faults({ faults, run }: { readonly faults: Summary["faults"]; readonly run: string }) {
  if (faults === null) return null;
  const found = faultNames.flatMap((label) =>
    faults.counts[label] === 0 ? [] : [{ kind: "fault" as const, label, count: faults.counts[label] }],
  );
  if (found.length === 0) return null;
  return (
    <section aria-label="Whose fault it is">
      <Chips reasons={found} run={run} />
      {!faults.isDone && <p class="quiet">Failures are being attributed …</p>}
    </section>
  );
}

const faultNames = ["agent", "user", "environment", "infrastructure"] as const;

/** pass^k as `eval` prints it: a row for each k, and one for each environment if there are several. */
function Rates({ domains }: { readonly domains: readonly Domain[] }) {
  const [first] = domains;
  if (first === undefined || first.graded === 0) return null;
  const ks = [...new Set(domains.flatMap(({ passRates }) => passRates.map(({ k }) => k)))];
  const rate = (value: number | null): string => (value === null ? "–" : value.toFixed(3));
  const bounds = (value: Interval | null): string =>
    value === null ? "" : `${rate(value.low)} to ${rate(value.high)}`;
  return (
    <section class="rates" aria-label="Pass rates">
      {domains.length === 1 ? (
        <Table
          label="pass^k"
          heads={["k", "pass^k", "95 %", "pass@k"]}
          rows={first.passRates.map(({ k, passHatK, interval: range, passAtK }) => [
            String(k),
            rate(passHatK),
            bounds(range),
            rate(passAtK),
          ])}
        />
      ) : (
        <Table
          label="Environments"
          heads={["environment", "tasks", "episodes", "graded", "reward", ...ks.map((k) => `pass^${k}, 95 %`)]}
          rows={domains.map(({ title, tasks, episodes, graded, meanReward, passRates }) => [
            title,
            count(tasks),
            count(episodes),
            count(graded),
            rate(meanReward),
            ...ks.map((k) => {
              const found = passRates.find((one) => one.k === k);
              return `${rate(found?.passHatK ?? null)} ${bounds(found?.interval ?? null)}`;
            }),
          ])}
        />
      )}
    </section>
  );
}

const orders = {
  plan: "in the order of the plan, task by task",
  ended: "in the order in which episodes ended",
} as const;

function Curves({ summary: { courses } }: { readonly summary: Summary }) {
  const order = route.value.query.get("order") === "ended" ? "ended" : "plan";
  const course = courses[order];
  const lines = useMemo(
    () => ({
      pass: [{ label: "pass", values: course.pass, colour: "--good" }],
      reward: [{ label: "mean", values: course.reward, colour: "--accent" }],
      turns: [{ label: "mean", values: course.turns, colour: "--warm" }],
    }),
    [course],
  );
  if (course.episodes.length < 2) return null;
  const shared = { x: course.episodes, xLabel: "episode" };
  const isKnown = (values: readonly (number | null)[]): boolean => values.some((value) => value !== null);
  const other = order === "plan" ? "ended" : "plan";
  return (
    <section aria-label="Course">
      <p class="quiet">
        Curves {orders[order]};{" "}
        <button class="sort" onClick={() => amend({ order: other === "plan" ? null : other })}>
          show them {orders[other]}
        </button>
      </p>
      <div class="charts">
        {isKnown(course.reward) && (
          <>
            <Chart {...shared} title="Pass rate" lines={lines.pass} format={(value) => percent(value)} range={[0, 1]} />
            <Chart {...shared} title="Reward" lines={lines.reward} format={(value) => value.toFixed(2)} />
          </>
        )}
        {isKnown(course.turns) && (
          <Chart {...shared} title="Turns" lines={lines.turns} format={(value) => value.toFixed(1)} />
        )}
      </div>
    </section>
  );
}

type EpisodesProps = { readonly run: string; readonly marks: MarkSummary["marks"]; readonly version: string };

function Episodes({ run, marks, version }: EpisodesProps) {
  const { query } = route.value;
  const [where, text, kind, reason, task] = ["where", "text", "kind", "reason", "task"].map(
    (key) => query.get(key) ?? "",
  );
  const sort = query.get("sort") ?? "-number";
  const [shown, setShown] = useState(pageRows);
  const filter = JSON.stringify([run, where, text, kind, reason, task, sort]);
  useEffect(() => setShown(pageRows), [filter]);
  const known = useRef<{ readonly key: string; readonly page: RowPage } | null>(null);
  const rows = useLoaded(`rows ${filter} ${shown} ${version}`, async () => {
    if (isExported()) return ask<RowPage>("rows", { run });
    const key = `${filter} ${shown}`;
    const before = known.current?.key === key ? known.current.page.rows : [];
    const newest = where || reason || task || sort !== "-number" ? undefined : before[0];
    const found = await ask<RowPage>("rows", {
      run,
      where,
      kind,
      reason,
      task,
      sort: sort === "-number" ? null : sort,
      count: shown,
      after: newest?.number,
      known: newest?.id,
    });
    const page = found.isContinued ? { ...found, rows: [...found.rows, ...before].slice(0, shown) } : found;
    known.current = { key, page };
    return page;
  });
  return (
    <section aria-label="Episodes">
      <RunBox initial={text ? `"${text}"` : (where ?? "")} run={run} />
      {text ? (
        <Hits run={run} text={text} />
      ) : (
        <Waiting state={rows}>
          {(page) => (
            <>
              <p class="quiet" role="status">
                {page.matched === page.total
                  ? plural(page.total, "episode")
                  : `${count(page.matched)} of ${count(page.total)} episodes`}
                {reason && (
                  <>
                    {" "}
                    with {kind} <em>{printable(reason)}</em>
                  </>
                )}
                {task && ` of task ${printable(task)}`}
                {page.matched !== page.total && (
                  <>
                    {" "}
                    <a href={linkTo([run])}>show all</a>
                  </>
                )}
                {page.unread > 0 && page.matched !== page.total && ` (${count(page.unread)} are not read yet)`}
              </p>
              <Columns />
              <RowTable rows={page.rows} run={run} sort={sort} marks={marks} />
              {page.rows.length < page.matched && page.rows.length < 1000 && (
                <button class="more" onClick={() => setShown(shown + 300)}>
                  show more
                </button>
              )}
            </>
          )}
        </Waiting>
      )}
    </section>
  );
}
