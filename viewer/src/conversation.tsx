// An episode as a conversation: messages and their speakers, calls with their arguments, results,
// format errors, and durations. Made from the events; for a file without events, from its messages.

import { useEffect, useMemo, useRef } from "preact/hooks";
import type { ComponentChildren } from "preact";
import { dumpJson } from "../../src/python-semantics/json/dump-json.ts";
import { parseJson } from "../../src/python-semantics/json/parse-json.ts";
import type { Plain, RunFacts, ShownEpisode, ShownEvent } from "../../src/viewer/wire/index.ts";
import type { Attempt, CallDecision, Message, ToolCall } from "../../src/core/index.ts";
import { count, duration, ending, money, plural, printable } from "./format.tsx";
import { linkTo } from "./route.ts";
import { agentName, agentsByTurn } from "./timeline.ts";
import { weightsText } from "./token-layout.ts";
import { TurnTools } from "./turn-tools.tsx";
import { JudgeAnswer } from "./verdict.tsx";

type Shown = { readonly episode: ShownEpisode; readonly facts: RunFacts; readonly number: number };
/** `agents`: the agent of each turn, if the episode had several. */
type Reader = Shown & { readonly agents: ReadonlyMap<number, string> };

/** Length from which text is folded. */
const foldedFrom = 4000;
/** Number of characters of a text in one element, so that elements out of sight cost nothing. */
const blockCharacters = 8000;

export function Conversation({ episode, facts, number, turn }: Shown & { readonly turn: number | null }) {
  const holder = useRef<HTMLElement>(null);
  useEffect(() => {
    const element = holder.current!;
    if (turn !== null) element.querySelector(`[data-turn="${turn}"]`)?.scrollIntoView({ block: "start" });
  }, [episode, turn]);
  const agents = useMemo(() => agentsByTurn(episode), [episode]);
  const reader = { episode, facts, number, agents };
  const [first, ...rest] = episode.messages;
  const system = first?.role === "system" ? first : null;
  return (
    <main class="conversation" ref={holder}>
      {episode.task.instruction !== null && (
        <Folded title="The task, as the user has it" text={episode.task.instruction} />
      )}
      {system !== null && (
        <Folded title="System text: the guidelines and tools that the policy reads" text={system.content} />
      )}
      {episode.events.length > 0
        ? episode.events.map((event, at) => <Event key={at} event={event} reader={reader} />)
        : (system === null ? episode.messages : rest).map((message, at) => <Said key={at} message={message} />)}
      <Ending episode={episode} />
    </main>
  );
}

function Event({ event, reader }: { readonly event: ShownEvent; readonly reader: Reader }) {
  switch (event.type) {
    case "user-line": {
      const { line, durationMs } = event;
      return (
        <Entry
          kind="user"
          label={line.type === "hang-up" ? "user hangs up" : "user"}
          aside={aside(
            durationMs,
            line.usage.modelCalls > 0 &&
              `${line.usage.outputTokens} tokens of its model, cost ${money(line.usage.cost)}`,
          )}
        >
          {line.text !== "" && <Text text={line.text} />}
          {(line.calls ?? []).map((call) => (
            <CallForm key={call.id} name={call.name} argumentsText={JSON.stringify(call.arguments)} />
          ))}
        </Entry>
      );
    }
    case "user-outcome":
      return (
        <>
          {event.outcome.results.map((result, at) => (
            <Entry
              key={at}
              kind={result.isError ? "error" : "result"}
              label={result.isError ? "user’s call failed" : "result for the user"}
              aside={aside(event.durationMs)}
            >
              <Text text={result.text} />
            </Entry>
          ))}
        </>
      );
    case "turn":
      return <TurnHead event={event} reader={reader} />;
    case "agent-reply":
      return (
        <header class="turn-head" data-turn={event.turn}>
          <TurnName turn={event.turn} reader={reader} />
          <span class="quiet">
            {[
              `${count(event.usage.outputTokens)} tokens`,
              `prompt ${count(event.usage.inputTokens)}`,
              duration(event.durationMs),
              `cost ${money(event.usage.cost)}`,
            ].join(" · ")}
          </span>
          <Attempts attempts={event.attempts} />
          <TurnTools episode={reader.episode} turn={event.turn} facts={reader.facts} />
        </header>
      );
    case "decision":
      return <DecisionView event={event} />;
    case "tool-result": {
      const { result, cutFrom, call, durationMs } = event;
      const label = result.isError ? "error" : "result";
      const facts = aside(
        durationMs,
        cutFrom !== null && `the policy read ${count(result.text.length)} of ${count(cutFrom)} characters`,
        typeof result.reward === "number" && `step reward ${result.reward}`,
      );
      return (
        <Entry
          kind={result.isError ? "error" : "result"}
          label={call === undefined ? label : `${label} ${call + 1}`}
          aside={facts}
        >
          <Text text={result.text} isCode />
        </Entry>
      );
    }
    case "exchange":
      return (
        <>
          {event.basis === null && <Note>A conversation begins.</Note>}
          {event.messages.map((message, at) => (
            <Said key={at} message={message} />
          ))}
          <Action action={event.action} />
        </>
      );
    case "judgement": {
      const { grader, model, answer, failure } = event.judgement;
      return (
        <Entry
          kind="judge"
          label={`judge ${grader}`}
          aside={aside(
            event.durationMs,
            model,
            event.judgement.isCached ? "from a cache" : `cost ${money(event.judgement.usage.cost)}`,
          )}
        >
          {answer === null ? <Text text={failure?.message ?? ""} /> : <JudgeAnswer answer={answer} />}
        </Entry>
      );
    }
    case "session": {
      const told = event.session["task_line"];
      return typeof told === "string" ? <Folded title="The task, as the program has it" text={told} isOpen /> : null;
    }
    case "program":
      return <Program event={event} />;
    case "lineages":
      return <Agents event={event} reader={reader} />;
    case "restart":
      return (
        <Note>
          The episode began again in a later process; {plural(event.turns.length, "turn")} of before train nothing.
        </Note>
      );
    case "undelivered":
      return (
        <Note>The answers of turns {event.turns.join(", ")} never reached their program; they train nothing.</Note>
      );
    case "close-failure":
      return <Note>The environment could not be closed: {printable(event.failure.message)}</Note>;
    case "episode-start":
    case "delivered":
    case "grade":
    case "episode-end":
      return null;
    default:
      return event satisfies never;
  }
}

function TurnHead({
  event,
  reader,
}: {
  readonly event: Extract<ShownEvent, { type: "turn" }>;
  readonly reader: Reader;
}) {
  const { turn, attempts, usage, durationMs } = event;
  const { episode, facts: run, number } = reader;
  const earned = episode.grade?.turnRewards?.[turn.index] ?? null;
  const facts = [
    plural(turn.sampledTokens.length, "token"),
    `prompt ${count(usage.promptTokens)}${usage.cachedTokens === null ? "" : `, ${count(usage.cachedTokens)} cached`}`,
    duration(durationMs),
    weightsText(turn),
    turn.finish.reason === "stop"
      ? null
      : turn.finish.reason === "length"
        ? "cut off at its limit"
        : "aborted by the engine",
    earned === null ? null : `reward ${earned}`,
  ];
  return (
    <header class="turn-head" data-turn={turn.index}>
      <TurnName turn={turn.index} reader={reader} />
      <a class="quiet" href={linkTo([run.key, "episode", number], { t: 1, turn: turn.index })}>
        {facts.filter((fact) => fact !== null).join(" · ")}
      </a>
      {turn.rewriteReason !== null && <span class="tag">history rewritten: {printable(turn.rewriteReason)}</span>}
      <Attempts attempts={attempts} />
      <TurnTools episode={episode} turn={turn.index} facts={run} />
    </header>
  );
}

/** The name of a turn, which is a link to it. */
function TurnName({ turn, reader: { facts, number, agents } }: { readonly turn: number; readonly reader: Reader }) {
  const agent = agents.get(turn);
  return (
    <>
      <h2>
        <a class="anchor" href={linkTo([facts.key, "episode", number], { turn })} title="a link to this turn">
          turn {turn}
        </a>
      </h2>
      {agent !== undefined && <span class="quiet">{agent}</span>}
    </>
  );
}

function Attempts({ attempts }: { readonly attempts: readonly Plain<Attempt>[] }) {
  if (attempts.length === 0) return null;
  return (
    <ul class="attempts">
      {attempts.map(({ failure, waitedMs }, at) => (
        <li key={at}>
          attempt {at + 1} failed: {failure.boundary}/{printable(failure.code)}: {printable(failure.message)}{" "}
          <span class="quiet">then waited {duration(waitedMs)}</span>
        </li>
      ))}
    </ul>
  );
}

const credits = {
  all: "The reward trains all of them.",
  main: "The reward trains the main agent only.",
  "by-tokens": "The reward trains all of them, and their rows weigh as much as they have trained tokens.",
};

/** The agents of an outside program, and which of them the reward trains. */
function Agents({
  event: { credit, lineages },
  reader: { facts, number, agents },
}: {
  readonly event: Extract<ShownEvent, { type: "lineages" }>;
  readonly reader: Reader;
}) {
  return (
    <Entry kind="result" label={plural(lineages.length, "agent")}>
      <ul>
        {lineages.map(({ id, kind, parent, turns }) => {
          const starter = lineages.find((one) => one.id === parent)?.turns[0];
          const from = starter === undefined ? undefined : agents.get(starter);
          return (
            <li key={id}>
              <a href={linkTo([facts.key, "episode", number], { turn: turns[0] ?? 0 })}>{agentName(kind, id)}</a>:{" "}
              {plural(turns.length, "turn")}
              {from === undefined ? "" : `, started by the ${from}`}
            </li>
          );
        })}
      </ul>
      <p>{credits[credit]}</p>
    </Entry>
  );
}

/** The end of an outside program's output, its exit code and its reward. */
function Program({ event }: { readonly event: Extract<ShownEvent, { type: "program" }> }) {
  const { exitCode, isTimedOut, reward, stdout, stderr, durationMs, isPrompted = false } = event;
  const killed = isPrompted ? "was ended after the conversation" : "was killed";
  const ended = isTimedOut
    ? "was killed: it ran out of time"
    : exitCode === null
      ? killed
      : `ended with code ${exitCode}`;
  const isBad = isTimedOut || (isPrompted ? exitCode !== null : exitCode !== 0);
  const printed = reward === null ? "no reward" : `reward ${reward}`;
  return (
    <>
      {stdout.trim() !== "" && (
        <Entry kind="result" label={isPrompted ? "conversation" : "stdout"}>
          <Text text={stdout.trimEnd()} isCode />
        </Entry>
      )}
      {stderr.trim() !== "" && (
        <Entry kind={isBad ? "error" : "result"} label="stderr">
          <Text text={stderr.trimEnd()} isCode />
        </Entry>
      )}
      <Entry kind={isBad ? "error" : "result"} label="program" aside={aside(durationMs)}>
        <Text text={isPrompted ? `The agent ${ended}.` : `It ${ended}, and printed ${printed}.`} />
      </Entry>
    </>
  );
}

function DecisionView({ event: { action, decision } }: { readonly event: Extract<ShownEvent, { type: "decision" }> }) {
  const calls: readonly Plain<CallDecision>[] =
    decision.type === "calls"
      ? decision.calls
      : decision.type === "call"
        ? [{ call: decision.call, arguments: decision.arguments, feedback: null, problems: [] }]
        : decision.type === "observe"
          ? [{ call: decision.call, arguments: null, feedback: decision.feedback, problems: [] }]
          : [];
  const said = decision.type === "say" ? decision.content : action.content;
  // An action may have problems of a parser that its strategy does not use.
  const isMalformed = decision.problems.length > 0;
  return (
    <>
      {action.reasoning !== null && action.reasoning.trim() !== "" && (
        <Entry kind="thought" label="thinks">
          <Text text={action.reasoning.trim()} />
        </Entry>
      )}
      {said.trim() !== "" && !(isMalformed && said === action.text) && (
        <Entry kind="agent" label="agent">
          <Text text={said} />
        </Entry>
      )}
      {calls.map(({ call, feedback }, at) => (
        <Entry
          key={at}
          kind={feedback === null ? "call" : "error"}
          label={feedback === null ? "calls" : "calls, refused"}
        >
          {call === null ? (
            <p class="quiet">What was written could not be read as a call.</p>
          ) : (
            <CallForm name={call.name} argumentsText={call.argumentsText} />
          )}
          {feedback !== null && (
            <p>
              <span class="label">the policy read</span> {printable(feedback)}
            </p>
          )}
        </Entry>
      ))}
      {isMalformed && (
        <Entry kind="problem" label="format">
          <ul>
            {decision.problems.map(({ code, detail }, at) => (
              <li key={at}>
                <strong>{code}</strong> {printable(detail)}
              </li>
            ))}
          </ul>
          <Folded title="The action as it was sampled" text={action.text} isOpen={action.text.length < 600} />
        </Entry>
      )}
      {decision.type === "end" && <Note>The episode ends with this action.</Note>}
      {decision.type === "abort" && <Note>The episode is aborted with this action.</Note>}
    </>
  );
}

function Action({ action }: { readonly action: Extract<ShownEvent, { type: "exchange" }>["action"] }) {
  return (
    <>
      {action.reasoning !== null && (
        <Entry kind="thought" label="thinks">
          <Text text={action.reasoning.trim()} />
        </Entry>
      )}
      {action.content !== "" && (
        <Entry kind="agent" label="agent">
          <Text text={action.content} />
        </Entry>
      )}
      {action.toolCalls.map((call) => (
        <Entry key={call.id} kind="call" label="calls">
          <CallForm name={call.name} argumentsText={call.argumentsText} />
        </Entry>
      ))}
    </>
  );
}

/** A message of a conversation that has no events. */
function Said({ message }: { readonly message: Plain<Message> }) {
  const { role, content } = message;
  if (role === "system") return <Folded title="System text" text={content} />;
  if (role === "tool") {
    return (
      <Entry kind="result" label={`result of ${message.name}`}>
        <Text text={content} isCode />
      </Entry>
    );
  }
  if (role === "user") {
    return (
      <Entry kind="user" label="user">
        <Text text={content} />
      </Entry>
    );
  }
  return (
    <>
      {message.reasoning !== null && message.reasoning !== "" && (
        <Entry kind="thought" label="thinks">
          <Text text={message.reasoning} />
        </Entry>
      )}
      {content !== "" && (
        <Entry kind="agent" label="agent">
          <Text text={content} />
        </Entry>
      )}
      {message.toolCalls.map((call: Plain<ToolCall>) => (
        <Entry key={call.id} kind="call" label="calls">
          <CallForm name={call.name} argumentsText={call.argumentsText} />
        </Entry>
      ))}
    </>
  );
}

function Ending({ episode: { stopReason, outcome, failure, events } }: { readonly episode: ShownEpisode }) {
  const grade = events.findLast((event) => event.type === "grade");
  return (
    <Note>
      {ending({ outcome, stopReason, failure: failure === null ? null : `${failure.boundary}/${failure.code}` })}
      {grade !== undefined && grade.type === "grade" && `; graded in ${duration(grade.durationMs)}`}
    </Note>
  );
}

type EntryProps = {
  readonly kind: string;
  readonly label: string;
  readonly aside?: string;
  readonly children: ComponentChildren;
};

function Entry({ kind, label, aside: note, children }: EntryProps) {
  return (
    <article class={`entry ${kind}`}>
      <h3>{printable(label)}</h3>
      <div class="body">{children}</div>
      {note !== undefined && note !== "" && <span class="aside">{note}</span>}
    </article>
  );
}

const aside = (durationMs: number, ...facts: readonly (string | false)[]): string =>
  [durationMs < 1 ? false : duration(durationMs), ...facts].filter((fact) => fact !== false).join(" · ");

function Note({ children }: { readonly children: ComponentChildren }) {
  return <p class="note">{children}</p>;
}

/** Arguments as rows. Text that is not a JSON object is shown unchanged. */
function CallForm({ name, argumentsText }: { readonly name: string; readonly argumentsText: string }) {
  let rows: (readonly [string, string])[] | null = null;
  try {
    const value = parseJson(argumentsText);
    if (value instanceof Map)
      rows = [...value].map(([key, given]) => [key, typeof given === "string" ? given : dumpJson(given)]);
  } catch {
    // Raw below.
  }
  return (
    <div class="call-form">
      <code class="tool-name">{printable(name)}</code>
      {rows === null ? (
        <Text text={argumentsText} isCode />
      ) : (
        <dl>
          {rows.map(([key, value]) => (
            <div key={key}>
              <dt>{printable(key)}</dt>
              <dd>
                <Text text={value} isCode />
              </dd>
            </div>
          ))}
        </dl>
      )}
    </div>
  );
}

function Folded({
  title,
  text,
  isOpen = false,
}: {
  readonly title: string;
  readonly text: string;
  readonly isOpen?: boolean;
}) {
  return (
    <details class="folded" open={isOpen}>
      <summary>
        {title} <span class="quiet">· {plural(text.length, "character")}</span>
      </summary>
      <Blocks text={text} isCode />
    </details>
  );
}

/** Long text is folded and shows its beginning; the browser's search opens them. */
function Text({ text, isCode = false }: { readonly text: string; readonly isCode?: boolean }) {
  if (text.length <= foldedFrom) return <div class={isCode ? "text code" : "text"}>{printable(text)}</div>;
  return (
    <details class="long">
      <summary>
        <span class="quiet">{count(text.length)} characters:</span> {printable(text.slice(0, 300))} …
      </summary>
      <Blocks text={text} isCode={isCode} />
    </details>
  );
}

export function Blocks({ text, isCode }: { readonly text: string; readonly isCode: boolean }) {
  const blocks: string[] = [];
  for (let at = 0; at < text.length;) {
    const line = text.indexOf("\n", at + blockCharacters);
    let end = line === -1 || line > at + 2 * blockCharacters ? at + blockCharacters : line + 1;
    // Keeps a character of two halves whole.
    if (text.charCodeAt(end - 1) >> 10 === 0x36) end++;
    blocks.push(text.slice(at, end));
    at = end;
  }
  return (
    <div class={isCode ? "text code" : "text"}>
      {blocks.map((block, at) => (
        <div key={at} class="block">
          {printable(block)}
        </div>
      ))}
    </div>
  );
}
