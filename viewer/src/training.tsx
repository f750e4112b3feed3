// A training on one page: whether it is healthy, in a sentence with its signs, and the curves that
// support them.

import { useMemo, useRef, useState } from "preact/hooks";
import type { PlainObject, RunFacts, Training, TrainingPoint } from "../../src/viewer/wire/index.ts";
import { valueText } from "./actions.ts";
import { ask, isExported } from "./api.ts";
import { Chart, type Line } from "./chart.tsx";
import { percent, printable } from "./format.tsx";
import { useLoaded, Waiting } from "./load.tsx";

const liveMs = 2000;

export function TrainingPage({ facts }: { readonly facts: RunFacts }) {
  const latest = useRef<Training | null>(null);
  const [isLive, setLive] = useState(true);
  const training = useLoaded(
    `training ${facts.key}`,
    async () => {
      const found = await ask<Training | { unchanged: true }>("training", {
        run: facts.key,
        since: latest.current?.version,
      });
      if (!("unchanged" in found)) latest.current = found;
      setLive(latest.current!.facts.isLive);
      return latest.current!;
    },
    isLive && !isExported() ? liveMs : null,
  );
  return (
    <main>
      <Waiting state={training}>{(value) => <Shown training={value} />}</Waiting>
    </main>
  );
}

function Shown({ training: { facts, verdict, signs, steps, comparison, end } }: { readonly training: Training }) {
  const x = useMemo(() => steps.map((step) => step["step"]!), [steps]);
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
      </section>
      {steps.length > 1 && <Curves steps={steps} x={x} />}
      {comparison !== null && <Comparison rows={comparison} />}
    </>
  );
}

function Curves({ steps, x }: { readonly steps: readonly TrainingPoint[]; readonly x: readonly number[] }) {
  const charts = useMemo(() => {
    const of = (name: string): (number | null)[] => steps.map((step) => step[name] ?? null);
    const shares = steps.map((step) => (step["groups"] ? (step["live_groups"] ?? 0) / step["groups"] : null));
    const pass = of("pass_rate");
    const heldOut: Line = {
      label: "held out",
      values: of("held_out_pass_rate"),
      colour: "--accent",
      points: { low: of("held_out_low"), high: of("held_out_high") },
    };
    const line = (label: string, values: readonly (number | null)[], colour: string): Line => ({
      label,
      values,
      colour,
    });
    return [
      {
        title: "Pass rate",
        format: percent,
        lines: [
          { ...line("of training", pass, "--good"), isFaint: true },
          line("smoothed", smoothed(pass), "--good"),
          heldOut,
        ],
      },
      { title: "Groups with signal", format: percent, lines: [line("share", shares, "--warm")] },
      { title: "Entropy", format: small, lines: [line("mean", of("entropy"), "--accent")] },
      { title: "KL to the first policy", format: small, lines: [line("mean", of("kl"), "--accent")] },
      {
        title: "Mismatch of logprobs",
        format: small,
        lines: [
          line("mean", of("logprob_difference_mean"), "--bad"),
          line("largest", of("logprob_difference_largest"), "--warm"),
        ],
      },
      { title: "Gradient norm", format: small, lines: [line("norm", of("gradient_norm"), "--accent")] },
      { title: "Turns of an episode", format: small, lines: [line("mean", of("turns_per_episode"), "--warm")] },
      {
        title: "Format errors of an episode",
        format: small,
        lines: [line("mean", of("problems_per_episode"), "--bad")],
      },
    ].filter(({ lines }) => lines.some(({ values }) => values.some((value) => value !== null && value !== 0)));
  }, [steps]);
  return (
    <section class="charts" aria-label="Curves">
      {charts.map((chart) => (
        <Chart key={chart.title} {...chart} x={x} xLabel="step" />
      ))}
    </section>
  );
}

function small(value: number): string {
  if (value === 0) return "0";
  return Math.abs(value) < 0.001 || Math.abs(value) >= 10_000
    ? value.toExponential(0)
    : String(Number(value.toPrecision(2)));
}

/** The mean of up to five steps on either side. */
export function smoothed(values: readonly (number | null)[]): (number | null)[] {
  return values.map((_, at) => {
    const near = values.slice(Math.max(0, at - 5), at + 6).flatMap((value) => value ?? []);
    return near.length === 0 ? null : near.reduce((sum, one) => sum + one, 0) / near.length;
  });
}

function Comparison({ rows }: { readonly rows: readonly PlainObject[] }) {
  const rate = (value: unknown): string => (typeof value === "number" ? percent(value) : "–");
  const interval = (value: unknown): string => {
    const { low, high } = (typeof value === "object" && value !== null ? value : {}) as {
      low?: unknown;
      high?: unknown;
    };
    if (typeof low !== "number" || typeof high !== "number") return "–";
    return `${(low * 100).toFixed(0)} to ${(high * 100).toFixed(0)}`.replaceAll("-", "−");
  };
  return (
    <section>
      <h2>Before and after, on the same held-out tasks</h2>
      <div class="table" tabIndex={0} role="region" aria-label="Before and after">
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
                <td class="number">{interval(row["gainInterval"])}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}
