// What differs between the versions of vLLM whose protocol the front speaks, as data; everything else of the front holds for
// all. 0.32.0: recorded replies of a real server and its source; the others: their source. A client must read all of them.

/** Versions of vLLM whose replies the front can give. */
export type VllmVersion = "0.32.0" | "0.12.0" | "0.10.2";

export type VllmProtocol = {
  readonly version: VllmVersion;
  /** The endpoint of ids: behind a flag of the server and 403 without it, always there, or unknown. */
  readonly generate: "flag" | "always" | "absent";
  /** Logprobs of the endpoint of ids name their token by number, or as "token_id:17". */
  readonly generateTokens: "ids" | "texts";
  /** What came with 0.32: `output_mode`, `weight_versions`, `metrics` and others. */
  readonly newFields: boolean;
  /** Whether a stream ends with a chunk that says so when the request was aborted and there are no more tokens. */
  readonly streamsAbort: boolean;
  /** Errors stand under "error", or flat. */
  readonly errors: "nested" | "flat";
  /** An unknown path: `{"detail"}` of the web framework, or an error of the server. */
  readonly notFound: "detail" | "error";
  /** Whether errors name the parameter and its value. */
  readonly namesParameter: boolean;
  /** More than the context has room for: the completion is shortened, or refused in one of two texts. */
  readonly overflow: "shorten" | "input-and-output" | "total";
  /** Abort by id, weight versions. */
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
    generateTokens: "texts",
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
    generateTokens: "texts",
    newFields: false,
    streamsAbort: false,
    errors: "flat",
    notFound: "error",
    namesParameter: false,
    overflow: "total",
    hasControls: false,
  },
};
