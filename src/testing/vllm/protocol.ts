// Differences between the versions of vLLM whose protocol the front speaks, as data; everything
// else of the front holds for all. 0.32.0: recorded replies of a real server and its source; the
// others: their source. A client must read all of them. Then: the shapes in which vLLM refuses, and
// malformed answers, each of which a client must refuse.

import type { Random } from "../../lib/random.ts";
import { jsonAnswer, type WholeAnswer } from "../front/front-server.ts";
import { RawText } from "../front/sampler.ts";

/** Versions of vLLM whose replies the front can give. */
export type VllmVersion = "0.32.0" | "0.12.0" | "0.10.2";

export type VllmProtocol = {
  readonly version: VllmVersion;
  /**
   * The endpoint of ids: enabled by a flag of the server and 403 without it, always present, or
   * unknown.
   */
  readonly generate: "flag" | "always" | "absent";
  /** Logprobs of the endpoint of ids identify their token by number, or as "token_id:17". */
  readonly generateTokens: "ids" | "names";
  /** True for the fields added in 0.32: `output_mode`, `weight_versions`, `metrics` and others. */
  readonly newFields: boolean;
  /**
   * True if the stream of an aborted request without further tokens ends with a chunk that reports
   * the abort.
   */
  readonly streamsAbort: boolean;
  /** Errors are nested under "error", or flat. */
  readonly errors: "nested" | "flat";
  /** Answer for an unknown path: `{"detail"}` of the web framework, or an error of the server. */
  readonly notFound: "detail" | "error";
  /** True if errors name the parameter and its value. */
  readonly namesParameter: boolean;
  /**
   * Answer to a request that exceeds the context: the completion is shortened, or the request is
   * refused with one of two messages.
   */
  readonly overflow: "shorten" | "input-and-output" | "total";
  /** True if the server can abort by id and has weight versions. */
  readonly hasControls: boolean;
};

export const vllmProtocols: Readonly<Record<VllmVersion, VllmProtocol>> = {
  "0.32.0": {
    version: "0.32.0",
    generate: "flag",
    generateTokens: "ids",
    newFields: true,
    streamsAbort: true,
    errors: "nested",
    notFound: "detail",
    namesParameter: true,
    overflow: "shorten",
    hasControls: true,
  },
  "0.12.0": {
    version: "0.12.0",
    generate: "always",
    generateTokens: "names",
    newFields: false,
    streamsAbort: false,
    errors: "nested",
    notFound: "error",
    namesParameter: false,
    overflow: "input-and-output",
    hasControls: true,
  },
  "0.10.2": {
    version: "0.10.2",
    generate: "absent",
    generateTokens: "names",
    newFields: false,
    streamsAbort: false,
    errors: "flat",
    notFound: "error",
    namesParameter: false,
    overflow: "total",
    hasControls: false,
  },
};

type Item = Readonly<Record<string, unknown>>;

/**
 * Garbled replies by name, so that a test can go through all of them. Each takes a whole answer, or
 * the last chunk of a stream.
 */
export const vllmGarblings: Readonly<Record<string, (item: Item) => unknown>> = {
  "a page of a proxy": () => new RawText("<html><body>502 Bad Gateway</body></html>"),
  "half of the text": (item) => new RawText(JSON.stringify(item).slice(0, 40)),
  null: () => null,
  "no choices": (item) => ({ ...item, choices: null }),
  "a choice that is none": (item) => ({ ...item, choices: ["stop"] }),
  "a finish reason nobody knows": (item) => withChoice(item, { finish_reason: "tired" }),
  "logprobs without ids": (item) =>
    withChoice(item, {
      token_ids: null,
      logprobs: { tokens: ids(item).map(() => "a"), token_logprobs: ids(item).map(() => -1) },
    }),
  "ids without logprobs": (item) => withChoice(item, { logprobs: null }),
  "one logprob too few": (item) => withLogprobs(item, ids(item).slice(1)),
  "logprobs of other ids": (item) =>
    withLogprobs(
      item,
      ids(item).map((id) => id + 1),
    ),
  "a logprob that is null": (item) => withLogprobs(item, ids(item), null),
  "a logprob beyond 32 bits": (item) => withLogprobs(item, ids(item), -1e39),
  "an id that is no id": (item) => withChoice(item, { token_ids: ids(item).map(() => -1) }),
  "one id too many": (item) => withChoice(item, { token_ids: [...ids(item), 1] }),
  "a stop at another token": (item) => withChoice(item, { finish_reason: "stop", stop_reason: 4_000_000 }),
};

/** One of the garbled replies. An answer without tokens has little to garble; it becomes null. */
export function garbleVllm(random: Random): (item: unknown) => unknown {
  const chosen = vllmGarblings[random.pick(Object.keys(vllmGarblings))]!;
  return (item) => (ids(item as Item).length === 0 ? new RawText("null") : chosen(item as Item));
}

function choice(item: Item): Item {
  return (item["choices"] as readonly Item[] | null)?.[0] ?? {};
}

function ids(item: Item): readonly number[] {
  return (choice(item)["token_ids"] ?? []) as readonly number[];
}

function withChoice(item: Item, change: Item): Item {
  return { ...item, choices: [{ ...choice(item), ...change }] };
}

/** Logprobs of these ids in the form that the answer has. */
function withLogprobs(item: Item, tokens: readonly number[], logprob: number | null = -1): Item {
  const names = tokens.map((id) => `token_id:${id}`);
  const known = choice(item)["logprobs"] as Item | null;
  const logprobs =
    known !== null && "content" in known
      ? { content: names.map((token) => ({ token, logprob })) }
      : { tokens: names, token_logprobs: names.map(() => logprob) };
  return withChoice(item, { logprobs });
}

const types: Readonly<Record<number, string>> = {
  400: "BadRequestError",
  403: "PermissionDeniedError",
  404: "NotFoundError",
  405: "MethodNotAllowed",
  500: "InternalServerError",
  503: "ServiceUnavailableError",
};

/** The name of a parameter and, if errors repeat it, its value in the request. */
export type Parameter = { readonly name: string; readonly value: string | null };

/** An answer other than 200. `message` is the server's message. */
export class VllmRefusal extends Error {
  readonly status: number;
  readonly #parameter: Parameter | null;

  /** `parameter` is the invalid one. */
  constructor(status: number, message: string, parameter: Parameter | null = null) {
    super(message);
    this.name = "VllmRefusal";
    this.status = status;
    this.#parameter = parameter;
  }

  /** The error in a body, or in a chunk of a stream. */
  toBody(protocol: VllmProtocol): unknown {
    const { status } = this;
    if (status === 401) return { error: this.message };
    if (this.message === "Not Found" && protocol.notFound === "detail") return { detail: this.message };
    const parameter = protocol.namesParameter ? this.#parameter : null;
    const { name = null, value = null } = parameter ?? {};
    const message = value === null ? this.message : `${this.message} (parameter=${name}, value=${value})`;
    const fields = { message, type: types[status] ?? "Error", param: name, code: status };
    return protocol.errors === "nested" ? { error: fields } : { object: "error", ...fields };
  }

  toAnswer(protocol: VllmProtocol): WholeAnswer {
    return jsonAnswer(JSON.stringify(this.toBody(protocol)), { status: this.status });
  }
}
