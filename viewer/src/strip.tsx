// The fixed strip above an episode: its end and the reason, the first action that differs from the
// expected ones, the difference of the state, and links to its neighbours.

import type { ComponentChildren } from "preact";
import { useMemo } from "preact/hooks";
import { type EpisodePage, expectedActions, type ShownEpisode, stateDifference } from "../../src/viewer/wire/index.ts";
import { callText, firstDifference, madeCalls } from "./actions.ts";
import { ending, plural, printable, Reward } from "./format.tsx";
import { linkTo, route } from "./route.ts";

type StripProps = {
  readonly run: string;
  readonly page: EpisodePage;
  readonly episode: ShownEpisode;
  readonly mode: "conversation" | "tokens" | "record";
  /** Facts that another tool's file does not record; `null` for a record of ours. */
  readonly missing: readonly string[] | null;
  readonly children: ComponentChildren;
};

export function Strip({ run, page: { row, group }, episode, mode, missing, children }: StripProps) {
  const isTokens = mode === "tokens";
  const place = group.findIndex(({ number }) => number === row.number);
  const neighbour = (step: number, label: string) => {
    const to = group[place + step];
    const text = step < 0 ? "‹" : "›";
    if (to === undefined)
      return (
        <span class="step off" aria-hidden="true">
          {text}
        </span>
      );
    return (
      <a
        class="step"
        rel={step < 0 ? "prev" : "next"}
        aria-label={`${label} in the group`}
        title={`${label} in the group (${step < 0 ? "k" : "j"})`}
        href={linkTo([run, "episode", to.number], modeOf(isTokens))}
      >
        {text}
      </a>
    );
  };
  return (
    <header class="strip" aria-label="Episode">
      <div class="strip-line">
        <Reward row={row} />
        <h1>
          {row.number} {row.id !== String(row.number) && <span class="quiet">{printable(row.id)}</span>}
        </h1>
        <span class="quiet">{printable(ending(row))}</span>
        <span class="quiet">{row.turns === null ? "turns not recorded" : plural(row.turns, "turn")}</span>
        {group.length > 1 && (
          <span class="group-steps">
            {neighbour(-1, "previous")}
            <a href={linkTo([run, "group", row.groupId])} title="side by side">
              {place + 1} of {group.length}
            </a>
            {neighbour(1, "next")}
          </span>
        )}
        <nav class="modes" aria-label="Ways to read it">
          <a aria-current={mode === "conversation" ? "page" : undefined} href={linkTo([run, "episode", row.number])}>
            conversation
          </a>
          <a
            aria-current={isTokens ? "page" : undefined}
            href={linkTo([run, "episode", row.number], { t: 1 })}
            title="t"
          >
            tokens
          </a>
          <a
            aria-current={mode === "record" ? "page" : undefined}
            href={linkTo([run, "episode", row.number], { r: 1 })}
          >
            record
          </a>
        </nav>
      </div>
      <Why episode={episode} run={run} number={row.number} />
      {row.fault !== null && (
        <p>
          <span class="label">fault</span> {row.fault.fault}{" "}
          <span class="quiet">
            ({printable(row.fault.rule)}) {printable(row.fault.evidence)}
          </span>
        </p>
      )}
      {missing !== null && missing.length > 0 && <p class="quiet">The file does not record: {missing.join(", ")}.</p>}
      {children}
      <h2 class="unseen">{mode}</h2>
    </header>
  );
}

const modeOf = (isTokens: boolean): Record<string, string | null> => ({ t: isTokens ? "1" : null });

function Why({
  episode,
  run,
  number,
}: {
  readonly episode: ShownEpisode;
  readonly run: string;
  readonly number: number;
}) {
  const { grade, failure } = episode;
  const expected = useMemo(() => expectedActions(episode), [episode]);
  const made = useMemo(() => madeCalls(episode), [episode]);
  const hasPassed = grade !== null && Math.abs(grade.reward - 1) <= 1e-6;
  const difference = expected === null || hasPassed ? null : firstDifference(expected, made);
  const state = hasPassed ? null : stateDifference(episode);
  const log = grade?.log.trim() ?? "";
  return (
    <div class="why">
      {failure !== null && (
        <p>
          <span class="label">errored</span> {failure.boundary}/{printable(failure.code)}: {printable(failure.message)}
        </p>
      )}
      {log !== "" && (
        <p class="grade-log">
          <span class="label">grade</span> {printable(log)}
        </p>
      )}
      {difference?.type === "missing" && (
        <p class="differs">
          <span class="label">expected</span> <code>{printable(callText(difference.expected))}</code>{" "}
          {difference.made === null ? (
            <span>and it was never called</span>
          ) : (
            <>
              {difference.made.turn === null ? (
                "called"
              ) : (
                <a href={linkTo([run, "episode", number], { ...keep(), turn: difference.made.turn })}>
                  turn {difference.made.turn}
                </a>
              )}{" "}
              <code>{printable(callText(difference.made))}</code>
              {difference.differing.length > 0 && (
                <span class="quiet"> other {difference.differing.map(printable).join(", ")}</span>
              )}
              <SaidBefore episode={episode} turn={difference.made.turn} />
            </>
          )}{" "}
          <span class="quiet">
            ({difference.place} of {expected!.length} made before)
          </span>
        </p>
      )}
      {difference?.type === "extra" && (
        <p class="differs">
          <span class="label">beyond</span> all {expected!.length} expected actions were made, and{" "}
          <code>{printable(callText(difference.made))}</code>
          {difference.made.turn !== null && (
            <a href={linkTo([run, "episode", number], { ...keep(), turn: difference.made.turn })}>
              {" "}
              turn {difference.made.turn}
            </a>
          )}
        </p>
      )}
      {state !== null && state.length > 0 && (
        <ul class="state">
          {state.map(({ record, expected: right, found }) => (
            <li key={record}>
              <span class="label">state</span> <strong>{printable(record)}</strong>{" "}
              {right === null ? (
                "should not be there"
              ) : (
                <>
                  expected <ins>{printable(right)}</ins>
                </>
              )}
              {found === null ? (
                ", is missing"
              ) : (
                <>
                  , found <del>{printable(found)}</del>
                </>
              )}
            </li>
          ))}
        </ul>
      )}
      {grade !== null && Object.keys(grade.metrics).length > 0 && (
        <p class="metrics quiet">
          {Object.entries(grade.metrics)
            .map(([name, value]) => `${printable(name)} ${Number(value.toFixed(3))}`)
            .join(" · ")}
        </p>
      )}
    </div>
  );
}

const mostCharacters = 200;

/** The last that the agent said before a turn. */
function SaidBefore({ episode: { events }, turn }: { readonly episode: ShownEpisode; readonly turn: number | null }) {
  const said = events.findLast(
    (event) => event.type === "decision" && event.decision.type === "say" && turn !== null && event.turn < turn,
  );
  if (said?.type !== "decision" || said.decision.type !== "say") return null;
  const { content } = said.decision;
  const cut = content.length > mostCharacters ? `${content.slice(0, mostCharacters)}…` : content;
  return <span class="quiet"> after it had said “{printable(cut)}”</span>;
}

function keep(): Record<string, string> {
  const { query } = route.value;
  return query.has("t") ? { t: "1" } : {};
}
