// A comparison of runs: a verdict for each against the first, and the tasks, those that flipped
// first.

import type { ComparePage } from "../../src/viewer/wire/index.ts";
import type { MeanDifference, RowChange, TaskInRun } from "../../src/statistics/index.ts";
import { ask } from "./api.ts";
import { count, percent, plural, printable, reward } from "./format.tsx";
import { useLoaded, Waiting } from "./load.tsx";
import { linkTo } from "./route.ts";

type Pair = readonly [baseline: string, other: string];

/** `pair`: keys of the two runs that were chosen in the list; `null` for the runs that were named. */
export function Compare({ pair }: { readonly pair: Pair | null }) {
  return (
    <main>
      <h1 class="unseen">Comparison</h1>
      <Comparison pair={pair} most={null} />
    </main>
  );
}

/** `most`: number of tasks that are shown; `null` for all. */
export function Comparison({ pair, most }: { readonly pair: Pair | null; readonly most: number | null }) {
  const page = useLoaded(`compare ${pair?.join(" ")}`, () =>
    ask<ComparePage>("compare", pair === null ? {} : { a: pair[0], b: pair[1] }),
  );
  return <Waiting state={page}>{(value) => <Shown page={value} most={most} />}</Waiting>;
}

const changeNames: Readonly<Record<RowChange, string>> = {
  lost: "lost",
  gained: "gained",
  changed: "changed",
  same: "same",
};

function Shown({ page, most }: { readonly page: ComparePage; readonly most: number | null }) {
  const { pairs, sentences, keys, runs, matched } = page;
  const rows = most === null ? page.rows : page.rows.slice(0, most);
  return (
    <>
      <section class="verdict" aria-label="Verdict">
        {sentences.map((sentence) => (
          <p key={sentence} class="sentence">
            {printable(sentence)}
          </p>
        ))}
        {pairs.map((pair) => (
          <dl key={pair.other} class="pair">
            <Measure label="pass rate" value={pair.passRate} />
            <Measure label="reward" value={pair.reward} />
            <div>
              <dt>tasks</dt>
              <dd>
                {count(pair.tasks)} compared{pair.byId > 0 && ` (${count(pair.byId)} by id alone)`}, {count(pair.lost)}{" "}
                lost, {count(pair.gained)} gained
                {pair.unmatched.baselineOnly > 0 && `, ${count(pair.unmatched.baselineOnly)} in ${pair.baseline} alone`}
                {pair.unmatched.otherOnly > 0 && `, ${count(pair.unmatched.otherOnly)} in ${pair.other} alone`}
                {pair.unmatched.contentChanged > 0 && `, ${count(pair.unmatched.contentChanged)} changed in content`}
                {pair.unmatched.ungraded > 0 && `, ${count(pair.unmatched.ungraded)} not graded in both`}
              </dd>
            </div>
          </dl>
        ))}
      </section>
      <p class="quiet">
        {plural(matched, "task")} of both, those that flipped first
        {rows.length < matched && `; ${count(rows.length)} are shown`}
      </p>
      <div class="table" tabIndex={0} role="region" aria-label="Tasks compared">
        <table>
          <thead>
            <tr>
              <th scope="col">change</th>
              <th scope="col">task</th>
              {keys.map((key, at) => (
                <th key={key} scope="col">
                  <a href={linkTo([key])}>{printable(runs[at]?.name ?? key)}</a>
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.map((row) => (
              <tr key={`${row.taskId} ${row.contentHash}`}>
                <td>
                  {row.changes.map((change, at) => (
                    <span key={at} class={`change ${change ?? ""}`}>
                      {change === null ? "–" : changeNames[change]}{" "}
                    </span>
                  ))}
                </td>
                <td class="id">{printable(row.taskId)}</td>
                {row.runs.map((task, at) => (
                  <td key={at}>{task === null ? "–" : <InRun task={task} run={keys[at]!} />}</td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </>
  );
}

function Measure({ label, value }: { readonly label: string; readonly value: MeanDifference | null }) {
  if (value === null) return null;
  const { baseline, other, mean, interval, p, isExact } = value;
  const points = (one: number): string => `${one > 0 ? "+" : ""}${(one * 100).toFixed(1)}`.replace("-", "−");
  const show = label === "reward" ? reward : percent;
  const isClear = interval !== null && (interval.low > 0 || interval.high < 0);
  return (
    <div>
      <dt>{label}</dt>
      <dd>
        {show(baseline)} → {show(other)},{" "}
        <strong class={isClear ? (mean > 0 ? "good" : "bad") : ""}>
          {label === "reward" ? reward(mean) : `${points(mean)} points`}
        </strong>
        {interval !== null &&
          ` [${label === "reward" ? `${reward(interval.low)} to ${reward(interval.high)}` : `${points(interval.low)} to ${points(interval.high)}`}]`}
        , p {p < 0.001 ? "< 0.001" : `= ${p.toFixed(3)}`}
        {isExact ? " (exact)" : ""}
      </dd>
    </div>
  );
}

const mostLinks = 8;

function InRun({
  task: { successes, trials, meanReward, episodes },
  run,
}: {
  readonly task: TaskInRun;
  readonly run: string;
}) {
  return (
    <>
      {successes} of {trials}
      {meanReward !== successes / trials && <span class="quiet"> reward {reward(meanReward)}</span>}{" "}
      {episodes.slice(0, mostLinks).map(({ id, reward: earned }, at) => (
        <a
          key={id}
          class={`dot ${earned === null ? "none" : Math.abs(earned - 1) <= 1e-6 ? "good" : "bad"}`}
          href={linkTo([run, "episode", id])}
          title={`${printable(id)}: ${reward(earned)}`}
        >
          {at + 1}
          {earned === null ? "" : Math.abs(earned - 1) <= 1e-6 ? "✓" : "✗"}
        </a>
      ))}
    </>
  );
}
