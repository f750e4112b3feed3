// Traces of episodes through OpenTelemetry's API: one span per episode, and below it one for each
// model call, tool call, user line and grade. Without an SDK in the process the API does nothing;
// with one (`node --import ./tracing.mjs`), spans go to its exporters. Spans are built from the
// durations in events, so the loop does not depend on tracing.
//
// Names follow OpenTelemetry's GenAI conventions (v1.41, the last version that both Langfuse and
// Phoenix read): `invoke_agent`, `chat`, `execute_tool`, `gen_ai.evaluation.result`. With a tool
// name on a chat span, Phoenix would show it as a tool.

import { type Attributes, context, type Span, SpanKind, SpanStatusCode, trace, type Tracer } from "@opentelemetry/api";
import { callsOf, type EpisodeEvent, outcomeOf, type ToolCall } from "../core/index.ts";
import { type EventFacts, factsOf, isDone, observing, type RunObserver } from "./observer.ts";

export type RunTracesOptions = {
  /** Default: the tracer of the SDK in the process. */
  readonly tracer?: Tracer;
  /** Milliseconds since 1970. Default: `Date.now`. */
  readonly now?: () => number;
  /** The sampled model, as named in spans. Default: not named. */
  readonly policy?: TracedPolicy;
  /** True: spans contain messages, tool calls and results. Default: false. */
  readonly holdsMessages?: boolean;
};

export type TracedPolicy = {
  readonly model: string | null;
  /** Name of the provider, e.g. "sglang", "openai". */
  readonly provider: string | null;
  readonly sampling: { readonly temperature: number; readonly topP: number; readonly maxNewTokens: number };
};

/** A message in the format of the conventions: role and parts. */
type TracedMessage = { readonly role: string; readonly parts: readonly Readonly<Record<string, unknown>>[] };

type TracedEpisode = {
  readonly span: Span;
  /** A model call whose action has not been parsed yet. */
  call: { readonly span: Span; readonly end: number; readonly finish: string } | null;
  /** Tool calls of the last action, in order; `null` for an action without a name. */
  calls: readonly (ToolCall | null)[];
  answered: number;
  /** Messages that the policy has read and written; empty unless messages are held. */
  readonly messages: TracedMessage[];
};

/**
 * An observer that creates spans. Attributes outside the conventions are named like the fields of
 * events.
 */
export function createRunTraces(options: RunTracesOptions = {}): RunObserver {
  const {
    tracer = trace.getTracer("trainable-agents"),
    now = Date.now,
    policy = null,
    holdsMessages = false,
  } = options;
  const { model = null, provider = null } = policy ?? {};
  const episodes = new Map<string, TracedEpisode>();
  const chat: Attributes = {
    "gen_ai.operation.name": "chat",
    ...(provider === null ? {} : { "gen_ai.provider.name": provider }),
    ...(model === null ? {} : { "gen_ai.request.model": model, "gen_ai.response.model": model }),
    ...(policy === null
      ? {}
      : {
          "gen_ai.request.temperature": policy.sampling.temperature,
          "gen_ai.request.top_p": policy.sampling.topP,
          "gen_ai.request.max_tokens": policy.sampling.maxNewTokens,
        }),
  };

  function start(
    episodeId: string,
    step: { name: string; kind: SpanKind; durationMs: number; attributes: Attributes },
  ): Span {
    const { name, kind, durationMs, attributes } = step;
    const parent = episodes.get(episodeId)?.span;
    const under = parent === undefined ? context.active() : trace.setSpan(context.active(), parent);
    return tracer.startSpan(name, { startTime: now() - durationMs, kind, attributes }, under);
  }

  function begin(episodeId: string, taskId: string, isResumed: boolean): void {
    const attributes = {
      "episode.id": episodeId,
      "task.id": taskId,
      ...(isResumed ? { resumed: true } : {}),
      "gen_ai.operation.name": "invoke_agent",
      "gen_ai.agent.name": "trainable-agents",
      "gen_ai.conversation.id": episodeId,
    };
    const span = tracer.startSpan("invoke_agent trainable-agents", {
      startTime: now(),
      kind: SpanKind.INTERNAL,
      attributes,
    });
    episodes.set(episodeId, { span, call: null, calls: [], answered: 0, messages: [] });
  }

  function end(episodeId: string, { stopReason, failure }: Extract<EpisodeEvent, { type: "episode-end" }>): void {
    const span = episodes.get(episodeId)?.span;
    episodes.delete(episodeId);
    span?.setAttributes({ outcome: outcomeOf(stopReason), stop_reason: stopReason });
    if (failure !== null) {
      const type = `${failure.boundary}/${failure.code}`;
      span?.setAttributes({ "failure.boundary": failure.boundary, "failure.code": failure.code, "error.type": type });
      span?.setStatus({ code: SpanStatusCode.ERROR, message: failure.message });
    }
    span?.end(now());
  }

  /** Opens the span of a model call, which stays open until its action is parsed. */
  function openCall(episodeId: string, event: EpisodeEvent, facts: EventFacts): void {
    const episode = episodes.get(episodeId);
    const name = model === null ? "chat" : `chat ${model}`;
    const attributes = { ...chat, "gen_ai.conversation.id": episodeId, ...callAttributes(event, facts) };
    const span = start(episodeId, { name, kind: SpanKind.CLIENT, durationMs: facts.durationMs, attributes });
    if (holdsMessages) span.setAttribute("gen_ai.input.messages", JSON.stringify(episode?.messages ?? []));
    if (episode === undefined) span.end(now());
    else episode.call = { span, end: now(), finish: event.type === "turn" ? event.turn.finish.reason : "stop" };
  }

  function closeCall(episode: TracedEpisode | undefined): void {
    if (episode === undefined || episode.call === null) return;
    episode.call.span.end(episode.call.end);
    episode.call = null;
  }

  function decide(episodeId: string, event: Extract<EpisodeEvent, { type: "decision" }>): void {
    const episode = episodes.get(episodeId);
    if (episode === undefined) return;
    for (const { code } of event.decision.problems) episode.span.addEvent("problem", { code, turn: event.turn }, now());
    episode.calls = callsOf(event.decision).map(({ call }) => call);
    episode.answered = 0;
    if (!holdsMessages) return;
    const { reasoning, content, toolCalls } = event.action;
    const parts = [
      ...(reasoning === null ? [] : [{ type: "reasoning", content: reasoning }]),
      ...(content === "" ? [] : [{ type: "text", content }]),
      ...toolCalls.map(({ id, name, argumentsText }) => ({ type: "tool_call", id, name, arguments: argumentsText })),
    ];
    const message = { role: "assistant", parts };
    const { span, finish } = episode.call ?? {};
    span?.setAttribute("gen_ai.output.messages", JSON.stringify([{ ...message, finish_reason: finish }]));
    episode.messages.push(message);
  }

  function answer(episodeId: string, event: Extract<EpisodeEvent, { type: "tool-result" }>, facts: EventFacts): void {
    const episode = episodes.get(episodeId);
    const call = episode?.calls[event.call ?? episode.answered] ?? null;
    if (episode !== undefined) episode.answered++;
    const { text, isError } = event.result;
    const attributes: Attributes = {
      "gen_ai.operation.name": "execute_tool",
      "gen_ai.conversation.id": episodeId,
      "gen_ai.tool.type": "function",
      turn: event.turn,
      ...(call === null ? {} : { "gen_ai.tool.name": call.name, "gen_ai.tool.call.id": call.id }),
      ...(isError ? { "error.type": "tool_error" } : {}),
      ...(holdsMessages && call !== null ? { "gen_ai.tool.call.arguments": call.argumentsText } : {}),
      ...(holdsMessages ? { "gen_ai.tool.call.result": text } : {}),
    };
    const name = call === null ? "execute_tool" : `execute_tool ${call.name}`;
    start(episodeId, { name, kind: SpanKind.INTERNAL, durationMs: facts.durationMs, attributes }).end(now());
    if (holdsMessages) {
      episode?.messages.push({
        role: "tool",
        parts: [{ type: "tool_call_response", id: call?.id ?? null, response: text }],
      });
    }
  }

  function see(episodeId: string, event: EpisodeEvent): void {
    if (event.type === "decision") decide(episodeId, event);
    closeCall(episodes.get(episodeId));
    const facts = factsOf(event);
    if (event.type === "episode-start") begin(episodeId, event.taskId, false);
    else if (event.type === "episode-end") end(episodeId, event);
    else if (event.type === "turn" || event.type === "agent-reply") openCall(episodeId, event, facts!);
    else if (event.type === "tool-result") answer(episodeId, event, facts!);
    else if (facts !== null) {
      const isChat = event.type === "judgement";
      const attributes = isChat ? { "gen_ai.operation.name": "chat", ...callAttributes(event, facts) } : {};
      const kind = isChat ? SpanKind.CLIENT : SpanKind.INTERNAL;
      const span = start(episodeId, { name: facts.phase, kind, durationMs: facts.durationMs, attributes });
      if (event.type === "grade") {
        const { reward, log } = event.grade;
        span.setAttribute("reward", reward);
        const result = { "gen_ai.evaluation.name": "reward", "gen_ai.evaluation.score.value": reward };
        const explanation = holdsMessages && log !== "" ? { "gen_ai.evaluation.explanation": log } : {};
        span.addEvent("gen_ai.evaluation.result", { ...result, ...explanation }, now());
      }
      if (event.type === "user-line" && holdsMessages) {
        episodes.get(episodeId)?.messages.push({ role: "user", parts: [{ type: "text", content: event.line.text }] });
      }
      span.end(now());
    }
  }

  return observing({
    event(episodeId, event) {
      try {
        see(episodeId, event);
      } catch {
        // A broken exporter must not affect the episode.
      }
    },
    recorded(episodeId, event) {
      try {
        if (event.type === "episode-start") begin(episodeId, event.taskId, true);
        // The span of the episode belongs to the process that ran it.
        if (isDone(event)) episodes.delete(episodeId);
      } catch {
        // A broken exporter must not affect the episode.
      }
    },
    async close() {
      for (const episode of episodes.values()) {
        closeCall(episode);
        episode.span.end(now());
      }
      episodes.clear();
    },
  });
}

/** Attributes of a model call. */
function callAttributes(event: EpisodeEvent, { turn, attempts, tokens }: EventFacts): Attributes {
  return {
    ...(turn === null ? {} : { turn }),
    retries: attempts.length,
    ...(tokens === null
      ? {}
      : { "gen_ai.usage.input_tokens": tokens.prompt, "gen_ai.usage.output_tokens": tokens.sampled }),
    ...(tokens === null || tokens.cached === null ? {} : { "gen_ai.usage.cache_read.input_tokens": tokens.cached }),
    ...(event.type === "turn" ? { "gen_ai.response.finish_reasons": [event.turn.finish.reason] } : {}),
  };
}
