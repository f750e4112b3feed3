// What differs between the versions of SGLang that the front speaks, as data; everything else of the front holds for both.
// 0.5.23: recorded replies of a real server and its source. 0.5.9: its source. The newer is the default; a client must read both.

/** Versions of SGLang whose replies the front can give. */
export type SglangVersion = "0.5.23" | "0.5.9";

export type SglangProtocol = {
  readonly version: SglangVersion;
  /** A sampling parameter of an unknown name or a wrong type: HTTP 400 with a string under "error", or a bare HTTP 500. */
  readonly wrongParameter: "string-error" | "crash";
  /** A sampling parameter that is null takes its default; otherwise it counts as a wrong type. */
  readonly nullIsDefault: boolean;
  /** An error inside a stream has type, code and retryable beside its message. */
  readonly detailedStreamErrors: boolean;
  /** An unknown path: `{"detail"}` of the web framework, or the flat error of the server. */
  readonly notFound: "detail" | "flat";
  /** What frames of a stream hold only the new part of, where the server is told to: the ids, or also text and logprobs. */
  readonly deltas: "ids" | "all";
  /** `weight_versions` and the other fields of `meta_info` that came after 0.5.9. */
  readonly newMetaFields: boolean;
  readonly retractionsField: "num_retractions" | "total_retractions";
  /** Without `logprob_start_len`, `input_token_logprobs` lists nothing, or the last prompt token without a score. */
  readonly listsLastPromptToken: boolean;
  /** A finished reply names the weights of its last token, or those at the moment it is sent. */
  readonly weightVersionOf: "last-token" | "reply";
  /** A prompt this much shorter than the context, or longer, is refused by the scheduler. */
  readonly reservedTokens: number;
  /** Prompt and requested tokens together may reach the context length, or must stay below it. */
  readonly mayFillContext: boolean;
  /** Tokens of the context that a reply without a bound of its own leaves free. */
  readonly freeTokens: number;
  /** Text and ids in one request: the ids are used, or the request is refused. */
  readonly idsWinOverText: boolean;
  /** Whether text matched by `stop_regex` is cut off. */
  readonly trimsStopPattern: boolean;
  /** `priority` is accepted where it has no effect, or refused. */
  readonly acceptsPriority: boolean;
  readonly temperatureRange: string;
  readonly repetitionPenalty: { readonly allowsZero: boolean; readonly range: string };
  readonly twoGrammars: string;
  /** Whether a weight update says which version it set. */
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
