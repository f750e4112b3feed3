// A training on one page: whether it is healthy, in a sentence with its signs, and the curves that
// support them; another training may be laid over it.

import { useMemo, useRef, useState } from "preact/hooks";
import type { PlainObject, RunFacts, Training } from "../../src/viewer/wire/index.ts";
import { valueText } from "./actions.ts";
import { ask, isExported } from "./api.ts";
import { Chart } from "./chart.tsx";
import { interval, percent, printable } from "./format.tsx";
import { useLoaded, Waiting } from "./load.tsx";
import { amend, linkTo, route } from "./route.ts";
import { StepGroups } from "./step-groups.tsx";
import { Table } from "./table.tsx";
import { chartsOf, lastMeasures, stepsOf } from "./training-charts.ts";

const liveMs = 2000;

/** `others`: further trainings that were named, which can be laid over this one. */
export function TrainingPage({ facts, others }: { readonly facts: RunFacts; readonly others: readonly RunFacts[] }) {
  const key = route.value.query.get("with");
  const training = useTraining(facts.key);
  return (
    <main>
      <h1 class="unseen">{printable(facts.name)}</h1>
      <Waiting state={training}>
        {(value) =>
          key === null ? (
            <Shown training={value} other={null} others={others} />
          ) : (
            <Overlaid training={value} other={key} />
          )
        }
      </Waiting>
    </main>
  );
}

function useTraining(key: string) {
  const latest = useRef<Training | null>(null);
  const [isLive, setLive] = useState(true);
  return useLoaded(
    `training ${key}`,
    async () => {
      const since = latest.current?.facts.key === key ? latest.current.version : undefined;
      const found = await ask<Training | { unchanged: true }>("training", { run: key, since });
      if (!("unchanged" in found)) latest.current = found;
      setLive(latest.current!.facts.isLive);
      return latest.current!;
    },
    isLive && !isExported() ? liveMs : null,
  );
}

function Overlaid({ training, other: key }: { readonly training: Training; readonly other: string }) {
  const other = useTraining(key);
  return <Waiting state={other}>{(value) => <Shown training={training} other={value} others={[]} />}</Waiting>;
}

type ShownProps = {
  readonly training: Training;
  readonly other: Training | null;
  readonly others: readonly RunFacts[];
};

function Shown({ training, other, others }: ShownProps) {
  const { facts, verdict, signs, comparison, greedy, end } = training;
  const step = Number(route.value.query.get("step") ?? Number.NaN);
  return (
    <>
      <section class="verdict" aria-label="Verdict">
        <p class={`sentence ${verdict.level}`}>{verdict.text}</p>
        <p class="quiet facts">
          {[facts.environment, facts.split, facts.model, facts.engine, facts.isLive ? "live" : facts.status, end]
            .filter((part) => part)
            .join(" · ")}
        </p>
        <ul class="signs">
          {signs.map(({ level, text }) => (
            <li key={text} class={level}>
              {printable(text)}
            </li>
          ))}
        </ul>
        {other === null ? (
          others.map((one) => (
            <p key={one.key}>
              <a href={linkTo([facts.key], { with: one.key })}>lay {printable(one.name)} over it</a>
            </p>
          ))
        ) : (
          <Other training={training} other={other} />
        )}
      </section>
      <Curves training={training} other={other} />
      {training.steps.length > 0 && <StepGroups training={training} step={Number.isSafeInteger(step) ? step : null} />}
      {comparison !== null && <Comparison title="Before and after, on the same held-out tasks" rows={comparison} />}
      {greedy !== null && <Comparison title="The same at temperature 0" rows={greedy} />}
    </>
  );
}

/** The training that is laid over this one: its verdict, and the last values of both. */
function Other({ training, other }: { readonly training: Training; readonly other: Training }) {
  const [a, b] = [lastMeasures(training), lastMeasures(other)];
  const text = (measure: ReturnType<typeof lastMeasures>[number] | undefined): string =>
    measure === undefined ? "–" : `${measure.text} ${interval(measure.interval)}`;
  const names = [...new Set([...a, ...b].map(({ name }) => name))];
  return (
    <>
      <p>
        Laid over it, dashed: <a href={linkTo([other.facts.key])}>{printable(other.facts.name)}</a>.{" "}
        {printable(other.verdict.text)} <button onClick={() => amend({ with: null })}>take it away</button>
      </p>
      <Table
        label="Last values of both"
        heads={["last value", nameOf(training, other), nameOf(other, training)]}
        rows={names.map((name) => [name, ...[a, b].map((all) => text(all.find((one) => one.name === name)))])}
      />
    </>
  );
}

/** Trainings of the same name are told apart by their keys. */
const nameOf = ({ facts: { name, key } }: Training, { facts: other }: Training): string =>
  printable(name === other.name ? `${name} (${key})` : name);

function Curves({ training, other }: Pick<ShownProps, "training" | "other">) {
  const x = useMemo(() => stepsOf(training, other), [training, other]);
  const charts = useMemo(() => chartsOf(training, other, x), [training, other, x]);
  if (x.length < 2) return null;
  const missing = charts.filter(({ isKnown }) => !isKnown).map(({ title }) => title.toLowerCase());
  return (
    <>
      <section class="charts" aria-label="Curves">
        {charts
          .filter(({ isKnown }) => isKnown)
          .map((chart) => (
            <Chart key={chart.title} {...chart} x={x} xLabel="step" onPick={(step) => amend({ step })} />
          ))}
      </section>
      {missing.length > 0 && <p class="quiet">Not measured, or 0 at every step: {missing.join(", ")}.</p>}
    </>
  );
}

function Comparison({ title, rows }: { readonly title: string; readonly rows: readonly PlainObject[] }) {
  const rate = (value: unknown): string => (typeof value === "number" ? percent(value) : "–");
  const gain = (value: unknown): string => {
    const { low, high } = (typeof value === "object" && value !== null ? value : {}) as {
      low?: unknown;
      high?: unknown;
    };
    if (typeof low !== "number" || typeof high !== "number") return "–";
    return `${(low * 100).toFixed(0)} to ${(high * 100).toFixed(0)}`.replaceAll("-", "−");
  };
  return (
    <section>
      <h2>{title}</h2>
      <div class="table" tabIndex={0} role="region" aria-label={title}>
        <table>
          <thead>
            <tr>
              {["kind", "tasks", "before", "after", "gain in points, 95 %"].map((label, at) => (
                <th key={label} scope="col" class={at === 0 ? "" : "number"}>
                  {label}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.map((row) => (
              <tr key={valueText(row["kind"] ?? null)}>
                <td>{printable(valueText(row["kind"] ?? null))}</td>
                <td class="number">{valueText(row["tasks"] ?? null)}</td>
                <td class="number">{rate(row["before"])}</td>
                <td class="number">{rate(row["after"])}</td>
                <td class="number">{gain(row["gainInterval"])}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}
