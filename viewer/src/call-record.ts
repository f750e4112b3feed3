// The request and the reply of one call of the policy as the record has them, and texts to repeat
// the call: a curl command and a test case. Nothing is invented: what is not recorded is absent.

import type { CallFacts, PlainJson, PlainObject, RunFacts, ShownEpisode } from "../../src/viewer/wire/index.ts";

export type CallRecord = {
  readonly request: PlainObject;
  readonly reply: PlainObject;
  /** `null` where no server of an address was called, or its request is not recorded. */
  readonly curl: string | null;
  /** One line of a task file, which `--env tasks.jsonl` reads. */
  readonly testCase: string;
};

type ShownMessage = ShownEpisode["messages"][number];

/** `null` for a turn that the episode does not have. */
export function callRecord(
  episode: ShownEpisode,
  turn: number,
  { calls, key, model }: Pick<RunFacts, "calls" | "key" | "model">,
): CallRecord | null {
  const { events } = episode;
  const exchange = events.find((event) => event.type === "exchange" && event.turn === turn);
  const reply = events.find((event) => event.type === "agent-reply" && event.turn === turn);
  const sampled = events.find((event) => event.type === "turn" && event.turn.index === turn);
  if (exchange === undefined && reply === undefined && sampled === undefined) return null;
  const messages = messagesBefore(episode, turn).map(openAiMessage);
  const decision = events.find((event) => event.type === "decision" && event.turn === turn);
  const action =
    exchange?.type === "exchange" ? exchange.action : decision?.type === "decision" ? decision.action : null;
  const made: PlainObject = { content: action?.content ?? "", tool_calls: (action?.toolCalls ?? []).map(openAiCall) };
  const expected = {
    id: `${episode.id}@${turn}`,
    messages,
    answer: made,
    source: { run: key, episode: episode.id, turn },
  };
  const testCase = hideSecrets(JSON.stringify(expected));
  if (sampled?.type === "turn") {
    const ids = promptIds(episode, turn);
    const { sampledTokens, logprobs, finish, weightSpans } = sampled.turn;
    const request: PlainObject = { input_ids: ids, sampling_params: calls?.sampling ?? null };
    const answered = {
      output_ids: [...sampledTokens],
      logprobs: logprobs === null ? null : [...logprobs],
      finish,
      usage: sampled.usage,
      weight_spans: weightSpans,
      attempts: sampled.attempts,
      text: action?.text ?? null,
    } as unknown as PlainObject;
    return { request, reply: answered, curl: engineCurl(request, { calls, model }), testCase };
  }
  const tools = exchange?.type === "exchange" ? toolsOf(episode, turn) : null;
  const request: PlainObject = {
    model,
    messages,
    ...(tools === null ? {} : { tools }),
    ...chatSampling(calls?.sampling),
  };
  const usage = reply?.type === "agent-reply" ? { usage: reply.usage, attempts: reply.attempts } : {};
  const bookkeeping =
    exchange?.type === "exchange"
      ? { dialect: exchange.dialect, request_sha256: exchange.digest, ignored_fields: exchange.ignored }
      : {};
  const answered = { ...made, raw: action?.text ?? null, ...usage, ...bookkeeping } as unknown as PlainObject;
  return { request, reply: answered, curl: chatCurl(request, calls), testCase };
}

/** The conversation that the call was given. */
function messagesBefore(episode: ShownEpisode, turn: number): readonly ShownMessage[] {
  const { events, messages } = episode;
  const exchanges = new Map(
    events.flatMap((event) => (event.type === "exchange" ? [[event.turn, event] as const] : [])),
  );
  if (exchanges.has(turn)) {
    const parts: ShownMessage[][] = [];
    const seen = new Set<number>();
    for (let at: number | null = turn; at !== null && !seen.has(at);) {
      seen.add(at);
      const found = exchanges.get(at);
      if (found === undefined) break;
      const { content, reasoning, toolCalls } = found.action;
      const own = at === turn ? [] : [{ role: "assistant" as const, content, reasoning, toolCalls }];
      parts.push([...found.messages, ...own]);
      at = found.basis;
    }
    return parts.reverse().flat();
  }
  const turns = events.flatMap((event) =>
    event.type === "turn" ? [event.turn.index] : event.type === "agent-reply" ? [event.turn] : [],
  );
  let left = turns.indexOf(turn);
  const end = messages.findIndex(({ role }) => role === "assistant" && left-- === 0);
  return end === -1 ? messages : messages.slice(0, end);
}

/** Tools of the exchange; `null` entries stand for those of its basis. */
function toolsOf({ events }: ShownEpisode, turn: number): readonly PlainJson[] | null {
  const seen = new Set<number>();
  for (let at: number | null = turn; at !== null && !seen.has(at);) {
    seen.add(at);
    const wanted: number = at;
    const found = events.find((event) => event.type === "exchange" && event.turn === wanted);
    if (found?.type !== "exchange") return null;
    if (found.tools !== null) return found.tools;
    at = found.basis;
  }
  return null;
}

function openAiCall({
  id,
  name,
  argumentsText,
}: {
  readonly id: string;
  readonly name: string;
  readonly argumentsText: string;
}): PlainObject {
  return { id, type: "function", function: { name, arguments: argumentsText } };
}

function openAiMessage(message: ShownMessage): PlainObject {
  const { role, content } = message;
  if (role === "tool") return { role, tool_call_id: message.callId, content };
  if (role !== "assistant" || message.toolCalls.length === 0) return { role, content };
  return { role, content, tool_calls: message.toolCalls.map(openAiCall) };
}

/** Ids of the prompt: all observations and actions of the branch before the turn's own action. */
function promptIds({ trajectory: { turns } }: ShownEpisode, turn: number): number[] {
  const parts: (readonly number[])[] = [];
  for (let at: number | null = turn; at !== null;) {
    const found: ShownEpisode["trajectory"]["turns"][number] | undefined = turns[at];
    if (found === undefined) break;
    parts.push([...found.observationTokens, ...(at === turn ? [] : found.sampledTokens)]);
    // A parent is always earlier; anything else in a record of unknown origin would never end.
    at = found.parent !== null && found.parent < at ? found.parent : null;
  }
  return parts.reverse().flat();
}

function engineCurl(request: PlainObject, { calls, model }: Pick<RunFacts, "calls" | "model">): string | null {
  if (calls === null || !isAddress(calls.address)) return null;
  if (calls.engine !== "vllm") return curl(`${base(calls.address)}/generate`, { ...request, return_logprob: true });
  const { input_ids: prompt = [] } = request;
  return curl(`${base(calls.address)}/v1/completions`, { model, prompt, ...chatSampling(calls.sampling) });
}

function chatCurl(request: PlainObject, calls: CallFacts | null): string | null {
  if (calls === null || !isAddress(calls.address)) return null;
  return curl(`${base(calls.address)}/chat/completions`, request, "authorization: Bearer $API_KEY");
}

function chatSampling(sampling: PlainObject | undefined): PlainObject {
  const { temperature = null, top_p: topP = null, max_new_tokens: most = null } = sampling ?? {};
  return {
    ...(temperature === null ? {} : { temperature }),
    ...(topP === null ? {} : { top_p: topP }),
    ...(most === null ? {} : { max_tokens: most }),
  };
}

const isAddress = (address: string): boolean => /^https?:\/\//.test(address);
const base = (address: string): string => (address.endsWith("/") ? base(address.slice(0, -1)) : address);

/** A command for a POSIX shell; the data is quoted, the variable of the key is not. */
function curl(url: string, body: PlainObject, header: string | null = null): string {
  const quoted = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;
  const parts = [`curl ${quoted(hideSecrets(url))}`, "-H 'content-type: application/json'"];
  if (header !== null) parts.push(`-H "${header}"`);
  return [...parts, `--data-binary ${quoted(hideSecrets(JSON.stringify(body)))}`].join(" \\\n  ");
}

const hidden = "[hidden]";

/** Where a key may begin: `\b`, and after an escape of JSON, whose letter is not a part of the text. */
const edge = String.raw`(?:\b|(?<=\\(?:[bfnrt]|u[0-9a-f]{4})))`;
const keys = [
  "(?:sk|pk|rk|ghp|gho|github_pat|glpat|hf|xox[abp])[-_][A-Za-z0-9_-]{16,}",
  "AKIA[A-Z0-9]{16}\\b",
  "eyJ[\\w-]{10,400}\\.[\\w-]{10,4000}\\.[\\w-]{5,}",
].map((key) => new RegExp(edge + key, "g"));
const scheme = new RegExp(`${edge}(Bearer|Basic) [A-Za-z0-9+/=._~-]{12,}`, "gi");

/** Text of JSON without what looks like a key: records have none of the run's own, but tools may have said others. */
export function hideSecrets(text: string): string {
  return keys
    .reduce((shown, key) => shown.replaceAll(key, hidden), text)
    .replaceAll(scheme, `$1 ${hidden}`)
    .replaceAll(/(:\/\/)[^\s/@:"']{1,100}:[^\s/@"']{1,200}@/g, `$1${hidden}@`)
    .replaceAll(
      // The second form is JSON inside of a string.
      /("[\w-]{0,40}?(?:api[_-]?key|authorization|password|secret|access[_-]?token)"\s?:\s?")(?:[^"\\]|\\[^]){4,}|(\\"[\w-]{0,40}?(?:api[_-]?key|authorization|password|secret|access[_-]?token)\\"\s?:\s?\\")(?:[^"\\]|\\\\(?:\\[^]|[^"\\])){4,}/gi,
      (_, outer?: string, inner?: string) => `${outer ?? inner ?? ""}${hidden}`,
    );
}
