// Fields of each dialect's requests, and their handling: done, refused, or counted. There is one
// table for all uses: requests are checked against it (`request-fields.ts`), its rows are compared
// with the types of the client libraries (`client-fields.json`), and docs/gateway.md shows it. A
// field without a row is counted, so that new fields of clients are noticed.
//
// Refused are fields whose effect a program would rely on and not get: several answers, a conversation or tools that the provider stores. Counted are fields
// that do not change the answer, or that belong to the session.

import type { SamplingParams } from "../../core/index.ts";
import type { DialectName } from "../request.ts";

/** Handling of one request field. */
export type FieldRule =
  | { readonly status: "done"; readonly note: string | null }
  | {
      readonly status: "refused";
      /** Reason, as the end of a sentence about the field. */
      readonly reason: string;
      readonly remedy: string;
      /**
       * Values that request nothing, in addition to null and the empty list; an object matches
       * every object that has its fields.
       */
      readonly neutral: readonly unknown[];
    }
  | {
      readonly status: "counted";
      readonly note: string | null;
      readonly neutral: readonly unknown[];
      /**
       * Sampling parameter that the field sets if clients may set the sampling (`--client-sampling
       * obey`); `null` if it sets none.
       */
      readonly sampling: SamplingField | null;
      /**
       * Effect on the variables of the chat template if clients may set them (`--client-template
       * obey`): "variables" if the value is an object of variables, "effort" if it sets the
       * reasoning effort (`reasoning_effort`), `null` if it has no effect.
       */
      readonly template: "variables" | "effort" | null;
    };

/**
 * A standard parameter of an engine, or an additional one (`extra`), under the name that engines
 * share.
 */
type SamplingField =
  | { readonly type: "parameter"; readonly name: Exclude<keyof SamplingParams, "extra" | "maxNewTokens"> }
  | { readonly type: "extra"; readonly name: string };

/** Rules by field name; a nested field is named by its parent and itself, joined by a dot. */
export type FieldTable = Readonly<Record<string, FieldRule>>;

function done(note: string | null = null): FieldRule {
  return { status: "done", note };
}

function refused(reason: string, remedy: string, neutral: readonly unknown[] = []): FieldRule {
  return { status: "refused", reason, remedy, neutral };
}

function counted(note: string | null = null, neutral: readonly unknown[] = []): FieldRule {
  return { status: "counted", note, neutral, sampling: null, template: null };
}

/** The run sets the variables of the template, unless clients may. */
function ofTemplate(template: "variables" | "effort", neutral: readonly unknown[] = []): FieldRule {
  const note = "variables of the chat template; handled according to `--client-template`";
  return { status: "counted", note, neutral, sampling: null, template };
}

function sampled(name: Extract<SamplingField, { readonly type: "parameter" }>["name"]): FieldRule {
  return { status: "counted", note: null, neutral: [], sampling: { type: "parameter", name }, template: null };
}

function sampledByExtra(name: string): FieldRule {
  return { status: "counted", note: null, neutral: [], sampling: { type: "extra", name }, template: null };
}

/** A constraint on the answer; `constraints.ts` reads its value. */
const guided = (note = ""): FieldRule => done(`${note === "" ? "" : `${note}; `}needs an engine with grammars`);

const oneAnswer = (neutral: readonly unknown[]): FieldRule =>
  refused("one answer is sampled per call", "send the request as often as answers are needed", neutral);

const toolChoice = done(
  '"auto", "none", "required", a function by name, and allowed tools, which alone are shown; a forced call needs an engine with grammars',
);

/** Names of OpenAI's parameters, and those of servers that speak its dialects. */
const openAiSampling: FieldTable = {
  temperature: sampled("temperature"),
  top_p: sampled("topP"),
  top_k: sampled("topK"),
  min_p: sampled("minP"),
  repetition_penalty: sampled("repetitionPenalty"),
  seed: sampled("seed"),
  frequency_penalty: sampledByExtra("frequency_penalty"),
  presence_penalty: sampledByExtra("presence_penalty"),
  logit_bias: sampledByExtra("logit_bias"),
};

/** Fields that OpenAI's API uses for accounting; they never change an answer. */
const bookkeeping: FieldTable = {
  metadata: counted(),
  moderation: counted(),
  prompt_cache_key: counted(),
  prompt_cache_options: counted(),
  prompt_cache_retention: counted(),
  safety_identifier: counted(),
  service_tier: counted(null, ["auto", "default"]),
  user: counted(),
};

/**
 * Fields that vLLM and SGLang accept in addition to OpenAI's in their Chat and Completions APIs.
 */
const serverFields: FieldTable = {
  guided_json: guided(),
  guided_regex: guided(),
  guided_choice: guided(),
  guided_grammar: guided(),
  structured_outputs: guided(),
  json_schema: guided(),
  regex: guided(),
  ebnf: guided(),
  structural_tag: refused("calls are written in the format of the model", "send tool_choice, or response_format"),
  bad_words: refused("the policy samples from all its tokens", "remove it"),
  allowed_token_ids: refused("the policy samples from all its tokens", "remove it"),
  logits_processors: refused("the policy samples from all its tokens", "remove it"),
  stop_token_ids: refused("an answer ends where the model's own does, or at a string", "use stop"),
  stop_regex: refused("an answer ends where the model's own does, or at a string", "use stop"),
  include_stop_str_in_output: refused("answers never contain the stop string", "omit it", [false]),
  no_stop_trim: refused("answers never contain the stop string", "omit it", [false]),
  prompt_logprobs: refused("no logprobs of prompts are computed", "omit it"),
  return_hidden_states: refused("no hidden states leave the engine", "omit it", [false]),
  ignore_eos: refused("an answer ends where the model ends it", "omit it", [false]),
  min_tokens: counted("an answer may be shorter", [0]),
  skip_special_tokens: counted(),
  spaces_between_special_tokens: counted(),
  return_token_ids: counted("the ids of every token are in the session's record"),
  priority: counted(null, [0]),
};

const chat: FieldTable = {
  messages: done("text; a last message of the assistant is refused"),
  model: done("echoed in the answer"),
  tools: done("functions; tools of other kinds are not shown, and counted as `ignored_tools`"),
  tool_choice: toolChoice,
  parallel_tool_calls: done("false: the answer holds the first call alone"),
  max_tokens: done("a cap below the session's"),
  max_completion_tokens: done("a cap below the session's"),
  stop: done("cut from the answer; the record has what was sampled"),
  stream: done(),
  "stream_options.include_usage": done(),
  "stream_options.include_obfuscation": counted(null, [false]),
  n: oneAnswer([1]),
  best_of: oneAnswer([1]),
  logprobs: refused("answers have no logprobs", "read those of the session's record, or of /v1/completions", [false]),
  top_logprobs: refused("answers have no logprobs", "read those of the session's record, or of /v1/completions", [0]),
  response_format: guided("text, any object, or a JSON schema"),
  functions: refused("it is the form before tools", "send tools"),
  function_call: refused("it is the form before tools", "send tool_choice", ["auto", "none"]),
  modalities: refused("a model of text answers with text", "leave it out", [["text"]]),
  audio: refused("a model of text answers with text", "leave it out"),
  web_search_options: refused("no provider searches here", "send a tool that searches"),
  documents: refused("the chat template is shown messages and tools", "put them into a message"),
  chat_template: refused("the run has its own chat template", "omit it"),
  continue_final_message: refused("an answer that the client begins is not the policy's", "omit it", [false]),
  add_generation_prompt: refused("every answer is a new message", "omit it", [true]),
  echo: refused("an answer holds what was sampled", "omit it", [false]),
  chat_template_kwargs: ofTemplate("variables", [{}]),
  reasoning_effort: ofTemplate("effort"),
  verbosity: counted(),
  prediction: counted(),
  store: counted("answers are in the session's record", [false]),
  ...openAiSampling,
  ...bookkeeping,
  ...serverFields,
};

const completions: FieldTable = {
  prompt: done("token ids; text is refused: render and encode it, or use Chat"),
  model: done("echoed in the answer"),
  max_tokens: done("a cap below the session's"),
  stop: done("cut from the text; the ids are those that were sampled"),
  stream: done("all of the answer in one event"),
  "stream_options.include_usage": done(),
  "stream_options.include_obfuscation": counted(null, [false]),
  logprobs: done("those of the sampled tokens, requested or not"),
  n: oneAnswer([1]),
  best_of: oneAnswer([1]),
  echo: refused("an answer holds what was sampled", "leave it out", [false]),
  suffix: refused("the policy continues a prompt", "leave it out", [""]),
  response_format: guided("text, any object, or a JSON schema"),
  user: counted(),
  ...openAiSampling,
  ...serverFields,
  return_token_ids: done("they always are"),
};

const responses: FieldTable = {
  input: done("text, calls, results, reasoning, references to items of this session; at least one item"),
  instructions: done(),
  model: done("echoed in the answer"),
  previous_response_id: done("of this session, if it was stored"),
  store: done("false: the response cannot be continued by its id"),
  tools: done(
    "functions, and those of a namespace as `namespace__name`; tools of other kinds are not shown, and counted as `ignored_tools`",
  ),
  tool_choice: toolChoice,
  parallel_tool_calls: done("false: the answer holds the first call alone"),
  max_output_tokens: done("a cap below the session's"),
  stream: done(),
  "reasoning.summary": done("reasoning is shown whole"),
  "reasoning.generate_summary": done("reasoning is shown whole"),
  "reasoning.effort": counted("the run sets how the model thinks"),
  "reasoning.context": counted(),
  "reasoning.mode": counted(),
  "text.format": guided("text, any object, or a JSON schema"),
  "text.verbosity": counted(),
  top_logprobs: refused("answers have no logprobs", "read those of the session's record", [0]),
  background: refused("responses are not kept until they are fetched", "omit it", [false]),
  conversation: refused("no conversation is stored here", "send the whole input, or previous_response_id"),
  prompt: refused("no prompts are stored here", "send instructions and input"),
  access_programs: counted(),
  client_metadata: counted(),
  context_management: counted("a conversation that is too long is refused"),
  image: counted(),
  include: counted("items are unchanged"),
  max_tool_calls: counted("it bounds tools of the provider"),
  stream_options: counted(null, [{ include_obfuscation: false }]),
  truncation: counted("a conversation that is too long is refused", ["disabled"]),
  ...openAiSampling,
  ...bookkeeping,
};

const messages: FieldTable = {
  messages: done("text, calls, results, thinking; a last message of the assistant is refused"),
  model: done("echoed in the answer"),
  system: done(),
  max_tokens: done("a cap below the session's"),
  stop_sequences: done("cut from the answer; the record has what was sampled"),
  stream: done(),
  tools: done("functions; tools of other kinds are not shown, and counted as `ignored_tools`"),
  tool_choice: done('"auto", "none", "any", or a tool by name; a forced call needs an engine with grammars'),
  "tool_choice.disable_parallel_tool_use": done("true: the answer holds the first call alone"),
  "output_config.format": guided("a JSON schema"),
  output_format: guided("a JSON schema"),
  mcp_servers: refused("no server of tools is called from here", "connect to it, and send its tools"),
  compaction: refused("the policy answers, and summarizes where a message says so", "ask for a summary in a message"),
  thread: refused("no conversation is held here", "send all its messages"),
  "output_config.effort": counted("the run says how the model thinks"),
  "output_config.task_budget": counted(),
  thinking: counted("the run sets how the model thinks"),
  context_management: counted("a conversation that is too long is refused"),
  betas: counted(),
  billing_policy: counted(),
  cache_control: counted(),
  container: counted(),
  diagnostics: counted(),
  fallback_credit_token: counted(),
  fallbacks: counted(),
  inference_geo: counted(),
  metadata: counted(),
  service_tier: counted(null, ["auto"]),
  speed: counted(null, ["standard"]),
  user_profile_id: counted(),
  workspace_id: counted(),
  temperature: sampled("temperature"),
  top_p: sampled("topP"),
  top_k: sampled("topK"),
};

const noLogprobs = (neutral: readonly unknown[]): FieldRule =>
  refused("answers have no logprobs", "read those of the session's record, or of /generate", neutral);
const onlyText = (neutral: readonly unknown[] = []): FieldRule =>
  refused("a model of text answers with text", "leave it out", neutral);

const google: FieldTable = {
  contents: done(
    "text, function calls, thoughts, and responses, shown as their output; a last content of the model is refused",
  ),
  model: done("that of the path is echoed"),
  systemInstruction: done(),
  tools: done("function declarations; tools of other kinds are not shown, and counted as `ignored_tools`"),
  "toolConfig.functionCallingConfig": done(
    "AUTO, NONE, ANY, and VALIDATED like AUTO; allowed functions alone are shown, or with ANY called; ANY needs an engine with grammars",
  ),
  "toolConfig.includeServerSideToolInvocations": counted(null, [false]),
  "toolConfig.retrievalConfig": counted(),
  "generationConfig.maxOutputTokens": done("a cap below the session's"),
  "generationConfig.stopSequences": done("cut from the answer; the record has what was sampled"),
  "generationConfig.thinkingConfig": done("includeThoughts shows them; the run sets how the model thinks"),
  "generationConfig.responseMimeType": guided("text, JSON, or an enumeration"),
  "generationConfig.responseSchema": guided(),
  "generationConfig.responseJsonSchema": guided(),
  "generationConfig.responseFormat": refused("it is not read here", "send responseMimeType and responseJsonSchema"),
  "generationConfig.candidateCount": oneAnswer([1]),
  "generationConfig.responseLogprobs": noLogprobs([false]),
  "generationConfig.logprobs": noLogprobs([0]),
  "generationConfig.responseModalities": onlyText([["TEXT"]]),
  "generationConfig.speechConfig": onlyText(),
  "generationConfig.imageConfig": onlyText(),
  "generationConfig.audioTranscriptionConfig": onlyText(),
  "generationConfig.translationConfig": onlyText(),
  "generationConfig.audioTimestamp": counted(null, [false]),
  "generationConfig.enableAffectiveDialog": counted(null, [false]),
  "generationConfig.enableEnhancedCivicAnswers": counted(null, [false]),
  "generationConfig.mediaResolution": counted(),
  "generationConfig.modelSelectionConfig": counted(),
  "generationConfig.routingConfig": counted(),
  "generationConfig.temperature": sampled("temperature"),
  "generationConfig.topP": sampled("topP"),
  "generationConfig.topK": sampled("topK"),
  "generationConfig.seed": sampled("seed"),
  "generationConfig.presencePenalty": sampledByExtra("presence_penalty"),
  "generationConfig.frequencyPenalty": sampledByExtra("frequency_penalty"),
  cachedContent: refused("no content is cached here", "send all contents"),
  continuationToken: refused("an answer that was cut is not continued", "ask for the rest in a message"),
  generationOutputConfig: counted(),
  labels: counted(),
  modelArmorConfig: counted(),
  safetySettings: counted(),
  serviceTier: counted(),
  store: counted("answers are in the session's record", [false]),
};

/** Rules of `sampling_params`, whose names SGLang and vLLM mostly share. */
function samplingParams(fields: FieldTable): FieldTable {
  const shared: FieldTable = {
    stop: done("cut from the text; the ids are those that were sampled"),
    stop_token_ids: done("in addition to the model's own"),
    n: oneAnswer([1]),
    temperature: sampled("temperature"),
    top_p: sampled("topP"),
    top_k: sampled("topK"),
    min_p: sampled("minP"),
    repetition_penalty: sampled("repetitionPenalty"),
    frequency_penalty: sampledByExtra("frequency_penalty"),
    presence_penalty: sampledByExtra("presence_penalty"),
    logit_bias: sampledByExtra("logit_bias"),
    ignore_eos: refused("an answer ends where the model ends it", "omit it", [false]),
    skip_special_tokens: counted("the ids are those that were sampled"),
    spaces_between_special_tokens: counted("the ids are those that were sampled"),
  };
  return Object.fromEntries(
    Object.entries({ ...shared, ...fields }).map(([name, rule]) => [`sampling_params.${name}`, rule]),
  );
}

const noPromptLogprobs = (neutral: readonly unknown[] = []): FieldRule =>
  refused("only the sampled tokens have logprobs", "omit it, and use `score` for a prompt", neutral);
const allTokens = (): FieldRule => refused("the policy samples from all its tokens", "remove it");
const ofOnePolicy = (): FieldRule => refused("the run sets the weights", "remove it");
const onlyIds = (neutral: readonly unknown[] = []): FieldRule =>
  refused("a prompt here is token ids", "encode it, and send the ids", neutral);
const notShown = (): FieldRule => refused("it is not in the answer", "omit it", [false]);

const sglang: FieldTable = {
  input_ids: done("one list of token ids"),
  rid: done("echoed in the answer"),
  stream: done("all of the answer in one event"),
  return_logprob: done("those of the sampled tokens, requested or not"),
  text: onlyIds(),
  input_embeds: onlyIds(),
  image_data: onlyIds(),
  video_data: onlyIds(),
  audio_data: onlyIds(),
  logprob_start_len: noPromptLogprobs([-1]),
  top_logprobs_num: noPromptLogprobs([0]),
  token_ids_logprob: noPromptLogprobs(),
  sampling_logprobs_mode: refused("the logprobs are those of the session's record", "omit it"),
  return_hidden_states: notShown(),
  return_routed_experts: notShown(),
  return_sampling_mask: notShown(),
  return_prompt_token_ids: counted("the client has them", [false]),
  return_text_in_logprobs: counted("the text of each token is null", [false]),
  custom_logit_processor: allTokens(),
  lora_path: ofOnePolicy(),
  lora_id: ofOnePolicy(),
  session_params: refused("no prompt is stored here", "send all ids"),
  session_id: counted(),
  priority: counted(null, [0]),
  ...samplingParams({
    max_new_tokens: done("a cap below the session's"),
    json_schema: guided(),
    regex: guided(),
    ebnf: guided(),
    choice: guided(),
    structural_tag: refused("calls are written in the format of the model", "send json_schema, regex or ebnf"),
    stop_regex: refused("an answer ends where the model's own does, or at a string", "use stop"),
    beam_width: oneAnswer([1]),
    watermark: refused("sampled tokens are not marked", "remove it", [false]),
    sampling_seed: sampled("seed"),
    min_new_tokens: counted("an answer may be shorter", [0]),
    no_stop_trim: counted("the ids are those that were sampled"),
    stream_interval: counted(),
    custom_params: counted(),
  }),
};

const vllm: FieldTable = {
  token_ids: done("one list of token ids"),
  request_id: done("echoed in the answer"),
  model: done("echoed in the answer"),
  stream: done("all of the answer in one event"),
  "stream_options.include_usage": done(),
  "stream_options.continuous_usage_stats": counted(null, [false]),
  return_token_ids: done("they always are"),
  features: onlyIds(),
  output_mode: refused("answers are token ids", "omit it", ["tokens"]),
  cache_salt: counted(),
  kv_transfer_params: counted(),
  priority: counted(null, [0]),
  ...samplingParams({
    max_tokens: done("a cap below the session's"),
    logprobs: done("those of the sampled tokens, requested or not"),
    structured_outputs: guided(),
    seed: sampled("seed"),
    prompt_logprobs: noPromptLogprobs(),
    prompt_logprob_token_ids: noPromptLogprobs(),
    prompt_logprob_start: noPromptLogprobs(),
    logprob_token_ids: noPromptLogprobs(),
    allowed_token_ids: allTokens(),
    bad_words: allTokens(),
    logits_processors: allTokens(),
    return_sampling_mask: notShown(),
    truncate_prompt_tokens: refused("a prompt is sampled whole", "shorten it"),
    include_stop_str_in_output: counted("the ids are those that were sampled"),
    detokenize: counted("answers are token ids"),
    min_tokens: counted("an answer may be shorter", [0]),
    routed_experts_prompt_start: counted(),
  }),
};

export const fieldTables: Readonly<Record<DialectName, FieldTable>> = {
  chat,
  completions,
  responses,
  messages,
  google,
  sglang,
  vllm,
};
