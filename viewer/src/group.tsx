// The episodes of a task side by side, from the step where they begin to differ: their common part
// is shown once.

import { useMemo } from "preact/hooks";
import {
  decodeEpisode,
  type EpisodePage,
  type Row,
  type RunFacts,
  type ShownEpisode,
  type StoredEpisode,
} from "../../src/viewer/wire/index.ts";
import { callText, readArguments } from "./actions.ts";
import { ask } from "./api.ts";
import { ending, plural, printable, Reward, reward } from "./format.tsx";
import { useLoaded, Waiting } from "./load.tsx";
import { linkTo, type Route } from "./route.ts";

const mostEpisodes = 16;

type Step = {
  readonly kind: "user" | "agent" | "call" | "result" | "error";
  readonly text: string;
  readonly turn: number | null;
};
type Member = { readonly row: Row; readonly episode: ShownEpisode; readonly steps: readonly Step[] };

export function Group({ facts, route: { parts } }: { readonly facts: RunFacts; readonly route: Route }) {
  const run = facts.key;
  const id = parts[2] ?? "";
  const group = useLoaded(`group ${run} ${id}`, async () => {
    const rows = await ask<readonly Row[]>("group", { run, id });
    const pages = await Promise.all(
      rows.slice(0, mostEpisodes).map(({ number }) => ask<EpisodePage<StoredEpisode>>("episode", { run, id: number })),
    );
    return { rows, members: pages.map(({ row, episode }) => memberOf(row, decodeEpisode(episode))) };
  });
  return (
    <main>
      <h1>
        Group <span class="quiet">{printable(id)}</span>
      </h1>
      <Waiting state={group}>
        {({ rows, members }) =>
          rows.length === 0 ? <p>The run has no such group.</p> : <SideBySide run={run} rows={rows} members={members} />
        }
      </Waiting>
    </main>
  );
}

function SideBySide({
  run,
  rows,
  members,
}: {
  readonly run: string;
  readonly rows: readonly Row[];
  readonly members: readonly Member[];
}) {
  const advantages = useMemo(() => advantagesOf(rows), [rows]);
  const shared = useMemo(() => sharedSteps(members.map(({ steps }) => steps)), [members]);
  const rewards = rows.flatMap((row) => row.reward ?? []);
  const mean = rewards.length === 0 ? null : rewards.reduce((sum, one) => sum + one, 0) / rewards.length;
  const hasSignal = new Set(rewards).size > 1;
  const [first] = members;
  return (
    <>
      <p class="sentence">
        {plural(rows.length, "episode")} of one task, mean reward {reward(mean)}:{" "}
        {hasSignal ? "rewards differ, so the group has signal" : "equal rewards, so the group has no signal"}.
        {rows.length > members.length && <span class="quiet"> The first {members.length} are shown.</span>}
      </p>
      {first !== undefined && shared > 0 && members.length > 1 && (
        <section class="shared" aria-label="What they share">
          <h2>The first {plural(shared, "step")} are the same</h2>
          <Steps steps={first.steps.slice(0, shared)} run={run} number={first.row.number} />
        </section>
      )}
      <div class="columns" tabIndex={0} role="region" aria-label="Episodes side by side">
        {members.map(({ row, steps }, place) => (
          <section key={row.number} class="column" aria-label={`Episode ${row.number}`}>
            <header>
              <a href={linkTo([run, "episode", row.number])}>
                <strong>{row.number}</strong>
              </a>{" "}
              <Reward row={row} />
              <span class="quiet">
                {" "}
                advantage {advantages[place] === null ? "–" : signed(advantages[place]!)} · {printable(ending(row))} ·{" "}
                {row.turns === null ? "turns not recorded" : plural(row.turns, "turn")}
              </span>
              <p class="quiet">{printable(row.sentence)}</p>
            </header>
            <Steps steps={steps.slice(members.length > 1 ? shared : 0)} run={run} number={row.number} />
          </section>
        ))}
      </div>
    </>
  );
}

function Steps({
  steps,
  run,
  number,
}: {
  readonly steps: readonly Step[];
  readonly run: string;
  readonly number: number;
}) {
  return (
    <ol class="steps">
      {steps.map(({ kind, text, turn }, at) => (
        <li key={at} class={kind}>
          <span class="label">
            {turn !== null && kind !== "result" && kind !== "error" ? (
              <a href={linkTo([run, "episode", number], { turn })}>{kind}</a>
            ) : (
              kind
            )}
          </span>{" "}
          {printable(text.length > 600 ? `${text.slice(0, 600)} …` : text)}
        </li>
      ))}
    </ol>
  );
}

function memberOf(row: Row, episode: ShownEpisode): Member {
  const steps: Step[] = [];
  for (const event of episode.events) {
    if (event.type === "user-line")
      steps.push({
        kind: "user",
        text: event.line.type === "hang-up" ? `${event.line.text} (hangs up)` : event.line.text,
        turn: null,
      });
    else if (event.type === "tool-result")
      steps.push({ kind: event.result.isError ? "error" : "result", text: event.result.text, turn: event.turn });
    else if (event.type === "decision") {
      const { decision, action, turn } = event;
      if (decision.type === "say") steps.push({ kind: "agent", text: decision.content, turn });
      else if (decision.type === "call")
        steps.push({ kind: "call", text: callText({ name: decision.call.name, arguments: decision.arguments }), turn });
      else if (decision.type === "calls") {
        for (const { call, feedback } of decision.calls) {
          const text =
            call === null
              ? (feedback ?? "")
              : callText({ name: call.name, arguments: readArguments(call.argumentsText) });
          steps.push({ kind: feedback === null ? "call" : "error", text, turn });
        }
      } else
        steps.push({
          kind: "error",
          text: decision.type === "observe" ? `${action.text} (told: ${decision.feedback})` : action.text,
          turn,
        });
    } else if (event.type === "exchange") {
      const { action, turn } = event;
      if (action.content !== "" || action.toolCalls.length === 0)
        steps.push({ kind: "agent", text: action.content, turn });
      for (const { name, argumentsText } of action.toolCalls)
        steps.push({ kind: "call", text: callText({ name, arguments: readArguments(argumentsText) }), turn });
    } else if (event.type === "program") steps.push({ kind: "result", text: event.stdout.trimEnd(), turn: null });
  }
  if (episode.events.length === 0) {
    for (const message of episode.messages) {
      if (message.role === "system") continue;
      const kind = message.role === "tool" ? "result" : message.role === "user" ? "user" : "agent";
      const calls = message.role === "assistant" ? message.toolCalls : [];
      if (message.content !== "") steps.push({ kind, text: message.content, turn: null });
      for (const { name, argumentsText } of calls)
        steps.push({ kind: "call", text: callText({ name, arguments: readArguments(argumentsText) }), turn: null });
    }
  }
  return { row, episode, steps };
}

function sharedSteps(all: readonly (readonly Step[])[]): number {
  const [first = []] = all;
  let shared = 0;
  while (
    shared < first.length &&
    all.every((steps) => steps[shared]?.kind === first[shared]!.kind && steps[shared]?.text === first[shared]!.text)
  )
    shared++;
  return shared;
}

/**
 * Advantages as group-relative learners compute them: the distance of a reward from the mean, in
 * standard deviations; 0 where all are equal.
 */
export function advantagesOf(rows: readonly Pick<Row, "reward">[]): readonly (number | null)[] {
  const rewards = rows.flatMap((row) => row.reward ?? []);
  const mean = rewards.reduce((sum, one) => sum + one, 0) / Math.max(1, rewards.length);
  const deviation = Math.sqrt(rewards.reduce((sum, one) => sum + (one - mean) ** 2, 0) / Math.max(1, rewards.length));
  return rows.map((row) => (row.reward === null ? null : deviation === 0 ? 0 : (row.reward - mean) / deviation));
}

const signed = (value: number): string => `${value > 0 ? "+" : ""}${value.toFixed(2)}`.replace("-", "−");
