// Differences between the versions of SGLang that the front speaks, as data; everything else of the
// front holds for both. 0.5.23: recorded replies of a real server and its source. 0.5.9: its
// source. The newer is the default; a client must read both. Then: the shapes in which SGLang
// refuses, and malformed answers, each of which a client must refuse.

import type { Random } from "../../lib/random.ts";
import { jsonAnswer, type WholeAnswer } from "../front/front-server.ts";
import { RawText } from "../front/sampler.ts";

/** Versions of SGLang whose replies the front can give. */
export type SglangVersion = "0.5.23" | "0.5.9";

export type SglangProtocol = {
  readonly version: SglangVersion;
  /**
   * Answer to a sampling parameter of an unknown name or a wrong type: HTTP 400 with a string under
   * "error", or a bare HTTP 500.
   */
  readonly wrongParameter: "string-error" | "crash";
  /** True if a null sampling parameter takes its default; otherwise null counts as a wrong type. */
  readonly nullIsDefault: boolean;
  /** True if an error inside a stream has type, code and retryable beside its message. */
  readonly detailedStreamErrors: boolean;
  /** Answer for an unknown path: `{"detail"}` of the web framework, or the flat error of the server. */
  readonly notFound: "detail" | "flat";
  /**
   * Fields of which stream frames hold only the new part, if the server was started that way: the
   * ids, or also text and logprobs.
   */
  readonly deltas: "ids" | "all";
  /** True for `weight_versions` and the other fields of `meta_info` that were added after 0.5.9. */
  readonly newMetaFields: boolean;
  readonly retractionsField: "num_retractions" | "total_retractions";
  /**
   * Without `logprob_start_len`, `input_token_logprobs` is empty (false), or lists the last prompt
   * token without a score (true).
   */
  readonly listsLastPromptToken: boolean;
  /**
   * Weights that a finished reply names: those of its last token, or those at the moment it is
   * sent.
   */
  readonly weightVersionOf: "last-token" | "reply";
  /** The scheduler refuses a prompt that leaves no more than this many tokens of the context. */
  readonly reservedTokens: number;
  /**
   * True if prompt and requested tokens together may reach the context length; otherwise they must
   * stay below it.
   */
  readonly mayFillContext: boolean;
  /** Number of context tokens that a reply without its own limit leaves free. */
  readonly freeTokens: number;
  /** True if the ids of a request with text and ids are used; otherwise the request is refused. */
  readonly idsWinOverText: boolean;
  /** True if text matched by `stop_regex` is removed. */
  readonly trimsStopPattern: boolean;
  /** True if `priority` is accepted where it has no effect; otherwise it is refused. */
  readonly acceptsPriority: boolean;
  readonly temperatureRange: string;
  readonly repetitionPenalty: { readonly allowsZero: boolean; readonly range: string };
  readonly twoGrammars: string;
  /** True if the reply to a weight update names the version that it set. */
  readonly updateNamesVersion: boolean;
  /** Paths that only this version has. */
  readonly paths: readonly ("/ready" | "/get_load")[];
};

export const sglangProtocols: Readonly<Record<SglangVersion, SglangProtocol>> = {
  "0.5.23": {
    version: "0.5.23",
    wrongParameter: "string-error",
    nullIsDefault: true,
    detailedStreamErrors: true,
    notFound: "detail",
    deltas: "all",
    newMetaFields: true,
    retractionsField: "num_retractions",
    listsLastPromptToken: false,
    weightVersionOf: "last-token",
    reservedTokens: 6,
    mayFillContext: true,
    freeTokens: 2,
    idsWinOverText: true,
    trimsStopPattern: false,
    acceptsPriority: true,
    temperatureRange: "a non-negative finite number",
    repetitionPenalty: { allowsZero: false, range: "(0, 2] (1.0 = no penalty)" },
    twoGrammars: "Only one of json_schema, regex, ebnf, or structural_tag can be set.",
    updateNamesVersion: true,
    paths: ["/ready"],
  },
  "0.5.9": {
    version: "0.5.9",
    wrongParameter: "crash",
    nullIsDefault: false,
    detailedStreamErrors: false,
    notFound: "flat",
    deltas: "ids",
    newMetaFields: false,
    retractionsField: "total_retractions",
    listsLastPromptToken: true,
    weightVersionOf: "reply",
    reservedTokens: 0,
    mayFillContext: false,
    freeTokens: 1,
    idsWinOverText: false,
    trimsStopPattern: true,
    acceptsPriority: false,
    temperatureRange: "non-negative",
    repetitionPenalty: { allowsZero: true, range: "[0, 2]" },
    twoGrammars: "Only one of regex, json_schema, or ebnf can be set.",
    updateNamesVersion: false,
    paths: ["/get_load"],
  },
};

type Item = Readonly<Record<string, unknown>>;
type Triple = readonly [unknown, unknown, unknown];

/** Garbled replies by name, so that a test can go through all of them. */
export const garblings: Readonly<Record<string, (item: Item) => unknown>> = {
  "a page of a proxy": () => new RawText("<html><body>502 Bad Gateway</body></html>"),
  nothing: () => new RawText(""),
  "half of the text": (item) => new RawText(JSON.stringify(item).slice(0, 40)),
  null: () => null,
  "no meta_info": (item) => without(item, "meta_info"),
  "no ids at all": (item) =>
    without({ ...item, meta_info: without(meta(item), "output_token_logprobs") }, "output_ids"),
  "no finish reason": (item) => withMeta(item, { finish_reason: null }),
  "a finish reason nobody knows": (item) => withMeta(item, { finish_reason: { type: "tired" } }),
  "one logprob too few": (item) => withMeta(item, { output_token_logprobs: triples(item).slice(1) }),
  "a logprob that is null": (item) =>
    withMeta(item, { output_token_logprobs: triples(item).map(([, id, text]) => [null, id, text]) }),
  "logprobs of other ids": (item) =>
    withMeta(item, {
      output_token_logprobs: triples(item).map(([logprob, id, text]) => [logprob, Number(id) + 1, text]),
    }),
  "an id that is no id": (item) => ({ ...item, output_ids: triples(item).map(() => -1) }),
  "one id too many": (item) => ({ ...item, output_ids: [...triples(item).map(([, id]) => id), 1] }),
};

/**
 * One of the garbled replies. An answer without tokens has little to garble; it loses its
 * meta_info.
 */
export function garbleSglang(random: Random): (item: unknown) => unknown {
  const chosen = garblings[random.pick(Object.keys(garblings))]!;
  return (item) => {
    const fields = item as Item;
    return triples(fields).length === 0 ? new RawText("null") : chosen(fields);
  };
}

function meta(item: Item): Item {
  return item["meta_info"] as Item;
}

function withMeta(item: Item, change: Item): Item {
  return { ...item, meta_info: { ...meta(item), ...change } };
}

function without(item: Item, name: string): Item {
  return Object.fromEntries(Object.entries(item).filter(([key]) => key !== name));
}

function triples(item: Item): readonly Triple[] {
  const list = meta(item)["output_token_logprobs"];
  return Array.isArray(list) ? (list as Triple[]) : [];
}

/** The part that refuses: inside an open stream each reports it in its own way. */
type RefusalKind = "value" | "parameter" | "shape" | "scheduler" | "path" | "key" | "crash";

/** An answer other than 200. `message` is the server's message. */
export class Refusal extends Error {
  readonly kind: RefusalKind;
  readonly status: number;
  readonly #body: object | null;

  private constructor(kind: RefusalKind, status: number, message: string, body: object | null = { error: message }) {
    super(message);
    this.name = "Refusal";
    this.kind = kind;
    this.status = status;
    this.#body = body;
  }

  /** A request that can be parsed but not served: values out of range, a prompt that is too long. */
  static ofValue(message: string): Refusal {
    return new Refusal("value", 400, message, { error: { message } });
  }

  /**
   * A sampling parameter that is unknown, or of another type; `toSpoken` gives the answer of its
   * version.
   */
  static ofParameter(message: string): Refusal {
    return new Refusal("parameter", 400, message);
  }

  /**
   * A body that cannot be parsed: not JSON, or wrong types. `problem` is the validation library's
   * message.
   */
  static ofShape(field: string, problem: string): Refusal {
    const message = `1 validation error:\n  {'loc': ('body', '${field}'), 'msg': "${problem}"}`;
    return Refusal.#flat("shape", 400, message, "Bad Request");
  }

  /** The scheduler abandoned the request. */
  static ofScheduler(status: number, message: string): Refusal {
    return Refusal.#flat("scheduler", status, message, String(status));
  }

  static notFound(style: SglangProtocol["notFound"]): Refusal {
    if (style === "flat") return Refusal.#flat("path", 404, "Not Found", "Not Found");
    return new Refusal("path", 404, "Not Found", { detail: "Not Found" });
  }

  static unauthorized(): Refusal {
    return new Refusal("key", 401, "Unauthorized");
  }

  static forbidden(): Refusal {
    return new Refusal("key", 403, "Forbidden");
  }

  /** An uncaught exception. */
  static crash(): Refusal {
    return new Refusal("crash", 500, "Internal Server Error", null);
  }

  /** The same refusal as this version of the server gives it. */
  asReportedBy(protocol: SglangProtocol): Refusal {
    return this.kind === "parameter" && protocol.wrongParameter === "crash" ? Refusal.crash() : this;
  }

  toAnswer(): WholeAnswer {
    const { status, message } = this;
    if (this.#body === null) return { status, headers: { "content-type": "text/plain" }, text: message, share: 1 };
    return jsonAnswer(JSON.stringify(this.#body), { status });
  }

  static #flat(kind: RefusalKind, code: number, message: string, type: string): Refusal {
    return new Refusal(kind, code, message, { object: "error", message, type, param: null, code });
  }
}
