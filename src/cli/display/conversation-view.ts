// An episode as a conversation for people: utterances, calls, problems and the ending. It is built
// from the episode's events, so it shows the events and not the prompt of the policy.

import { actionMarker } from "../../agents/index.ts";
import {
  type Decision,
  endingOf,
  type Episode,
  type EpisodeEvent,
  type Lineage,
  type ParsedAction,
  type ToolCall,
} from "../../core/index.ts";
import { dumpJson } from "../../python-semantics/json/index.ts";
import { type Colours, shorten } from "./terminal-text.ts";
import { visible, visibleLine } from "../../lib/text.ts";

/** `textLength`: number of characters of a text that are shown. */
type View = { readonly colours: Colours; readonly textLength: number };

/** The conversation as lines, a heading first and the ending last. */
export function conversationView(episode: Episode, view: View): string[] {
  const { colours } = view;
  // Episodes of text-delta presets have messages only.
  const lines =
    episode.events.length > 0
      ? episode.events.flatMap((event) => eventLines(event, view))
      : episode.messages
          .slice(1)
          .flatMap(({ role, content }) => labelled(colours.cyan(visibleLine(role)), content, view));
  return [conversationHeading(episode, colours), "", ...lines, "", ...endingLines(episode, view)];
}

/** Id, reward and ending of an episode in one line. */
export function conversationHeading(episode: Episode, colours: Colours): string {
  const replies = episode.events.filter(({ type }) => type === "agent-reply");
  const turns = episode.trajectory.turns.length + replies.length;
  const reward = episode.reward === null ? "not graded" : `reward ${episode.reward}`;
  const ended = visibleLine([episode.stopReason, endingOf(episode) ?? []].flat().join(": "));
  return `${colours.bold(visibleLine(episode.id))}  ${reward}, ${visibleLine(episode.outcome)} (${ended}), ${turns} turns, seed ${episode.seed}`;
}

function eventLines(event: EpisodeEvent, view: View): string[] {
  const { colours } = view;
  switch (event.type) {
    case "user-line": {
      const label = event.line.type === "hang-up" ? "user hangs up" : "user";
      const calls = (event.line.calls ?? []).flatMap(({ name, arguments: given }) =>
        labelled(colours.cyan("user calls"), `${name} ${dumpJson(given)}`, view),
      );
      if (calls.length > 0)
        return [...(event.line.text === "" ? [] : labelled(colours.dim("beside"), event.line.text, view)), ...calls];
      return event.line.text === "" ? [colours.cyan(label)] : labelled(colours.cyan(label), event.line.text, view);
    }
    case "user-outcome":
      return event.outcome.results.flatMap(({ text, isError }) =>
        labelled(isError ? colours.red("error") : colours.dim("result for the user"), text, view),
      );
    case "decision":
      return decisionLines(event, view);
    case "tool-result": {
      const label = event.result.isError ? colours.red("error") : colours.dim("result");
      const which = event.call === undefined ? label : `${label} ${event.call + 1}`;
      return labelled(which, event.result.text, view);
    }
    case "turn":
    case "agent-reply":
      return event.attempts.map(({ failure }) =>
        colours.yellow(
          indent(
            `retried: ${visibleLine(`${failure.boundary}/${failure.code}`)}: ${visibleLine(shorten(failure.message, 200))}`,
          ),
        ),
      );
    case "restart":
      return [
        colours.yellow(indent(`begins again: the ${event.turns.length} turns of an earlier process are dropped`)),
      ];
    case "close-failure":
      return [colours.yellow(indent(`not closed: ${visibleLine(shorten(event.failure.message, 200))}`))];
    case "exchange":
      return exchangeLines(event, view);
    case "judgement": {
      const { grader, model, answer, failure } = event.judgement;
      return labelled(
        colours.magenta(`judge ${visibleLine(model)}, ${visibleLine(grader)}`),
        answer ?? failure?.message ?? "",
        view,
      );
    }
    case "session": {
      const told = event.session.get("task_line");
      return typeof told === "string" ? labelled(colours.cyan("task"), told, view) : [];
    }
    case "program":
      return programLines(event, view);
    case "lineages":
      return event.lineages.map((lineage) => colours.dim(indent(lineageLine(lineage))));
    case "episode-start":
    case "delivered":
    case "undelivered":
    case "grade":
    case "episode-end":
      return [];
    default:
      return event satisfies never;
  }
}

function lineageLine({ id, kind, parent, turns }: Lineage): string {
  return `agent ${id}: ${kind}${parent === null ? "" : ` of ${parent}`}, ${turns.length === 1 ? "turn" : "turns"} ${turns.join(", ")}`;
}

/** A call of an outside program: the messages that it added, and the answer. */
function exchangeLines(
  { messages, action, basis }: Extract<EpisodeEvent, { readonly type: "exchange" }>,
  view: View,
): string[] {
  const { colours } = view;
  const lines = basis === null ? [colours.dim(indent("a conversation begins"))] : [];
  for (const { role, content } of messages) lines.push(...labelled(colours.cyan(visibleLine(role)), content, view));
  if (action.reasoning !== null) lines.push(...labelled(colours.dim("thinks"), action.reasoning.trim(), view));
  if (action.content !== "") lines.push(...labelled(colours.green("agent"), action.content, view));
  for (const { name, argumentsText } of action.toolCalls) {
    lines.push(...labelled(colours.yellow("calls"), `${name}(${argumentsText})`, view));
  }
  return lines;
}

/** The end of an outside program's output, its exit code and its reward. */
function programLines(event: Extract<EpisodeEvent, { readonly type: "program" }>, view: View): string[] {
  const { exitCode, isTimedOut, reward, stdout, stderr, isPrompted = false } = event;
  const { colours } = view;
  const killed = isPrompted ? "was ended after the conversation" : "was killed";
  const ended = isTimedOut
    ? "was killed: it ran out of time"
    : exitCode === null
      ? killed
      : `ended with code ${exitCode}`;
  const isBad = isTimedOut || (isPrompted ? exitCode !== null : exitCode !== 0);
  const said = reward === null ? "printed no reward" : `printed reward ${reward}`;
  const output = isPrompted ? "conversation" : "stdout";
  return [
    ...(stdout.trim() === "" ? [] : labelled(colours.green(output), endOf(stdout.trimEnd(), view), view)),
    ...(stderr.trim() === "" ? [] : labelled(colours.yellow("stderr"), endOf(stderr.trimEnd(), view), view)),
    (isBad ? colours.red : colours.dim)(isPrompted ? `the agent ${ended}` : `the program ${ended}, and ${said}`),
  ];
}

/** The end of an output tells more than its beginning, so the end is shown. */
function endOf(text: string, { textLength }: View): string {
  return text.length <= textLength ? text : `…${text.slice(1 - textLength)}`;
}

function decisionLines(
  { action, decision }: Extract<EpisodeEvent, { readonly type: "decision" }>,
  view: View,
): string[] {
  const { colours } = view;
  const lines = action.reasoning === null ? [] : labelled(colours.dim("thinks"), action.reasoning.trim(), view);
  const isUnread = action.toolCalls.length === 0 && isWithoutCall(decision);
  const text = isUnread ? action.content.trim() : textBeside(action, decision);
  if (text !== "") lines.push(...labelled(isUnread ? colours.green("agent") : colours.dim("beside"), text, view));
  for (const { code, detail } of decision.problems) {
    lines.push(colours.yellow(indent(`problem: ${visibleLine(code)} (${visibleLine(shorten(detail, 300))})`)));
  }
  const called = ({ name, argumentsText }: ToolCall): string[] =>
    labelled(colours.green("agent calls"), `${name} ${argumentsText}`, view);
  switch (decision.type) {
    case "call":
      return [...lines, ...called(decision.call)];
    case "calls":
      return [
        ...lines,
        ...decision.calls.flatMap(({ call, feedback }) => [
          ...(call === null ? [] : called(call)),
          ...(feedback === null ? [] : labelled(colours.yellow("told"), feedback, view)),
        ]),
      ];
    case "say":
      return [...lines, ...labelled(colours.green("agent"), decision.content, view)];
    case "observe":
      return [
        ...lines,
        ...(decision.call === null ? [] : called(decision.call)),
        ...labelled(colours.yellow("told"), decision.feedback, view),
      ];
    case "end":
    case "abort":
      return [
        ...lines,
        ...action.toolCalls.flatMap(called),
        colours.yellow(indent(decision.type === "end" ? "ends the episode" : "aborts the episode")),
      ];
    default:
      return decision satisfies never;
  }
}

/** True if no part of the action was read as a call or heard by the user. */
function isWithoutCall(decision: Decision): boolean {
  return (
    decision.type === "end" || decision.type === "abort" || (decision.type === "observe" && decision.call === null)
  );
}

/**
 * Text that the agent wrote before its call, or before the utterance that it marked as one; "" if
 * there is none. A text strategy reads the call from the content, after the last "Action:".
 */
function textBeside({ content, toolCalls }: ParsedAction, decision: Decision): string {
  if (toolCalls.length > 0) return content.trim();
  if (decision.type === "say" && decision.content === content) return "";
  return content.slice(0, Math.max(0, content.lastIndexOf(actionMarker))).trim();
}

/** The failure, and the log of the grader. */
export function endingLines(episode: Episode, { colours, textLength }: View): string[] {
  const { failure, grade } = episode;
  const lines: string[] = [];
  if (failure !== null) {
    lines.push(
      colours.red(
        `failed at boundary ${visibleLine(`${failure.boundary} (${failure.code})`)}: ${visibleLine(shorten(failure.message, textLength))}`,
      ),
    );
  }
  if (grade !== null && grade.log !== "") lines.push(...labelled("grade", grade.log, { colours, textLength }));
  const metrics = Object.entries(grade?.metrics ?? {});
  if (metrics.length > 0)
    lines.push(colours.dim(`metrics: ${metrics.map(([name, value]) => `${visibleLine(name)} ${value}`).join(", ")}`));
  return lines;
}

function labelled(label: string, text: string, { textLength }: View): string[] {
  return `${label}: ${visible(shorten(text, textLength))}`
    .split("\n")
    .map((line, at) => (at === 0 ? line : indent(line)));
}

const indent = (text: string): string => `  ${text}`;
