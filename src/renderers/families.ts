// The known model families, a table: one row per published chat template. The templates themselves
// are in the model folders; rows state facts that a template does not: tokens, parsers, its
// treatment of history. To add one, see CONTRIBUTING.md.

import { ConfigurationError } from "../core/index.ts";
import {
  harmonyMessage,
  harmonyStandIn,
  minimaxMessage,
  minimaxStandIn,
  mistralStandIn,
  restateCalls,
  standInAfterResults,
} from "./calls-in-history.ts";
import type { TemplateSource } from "./chat-template.ts";
import { familyDefaults, type RendererFamily, shortestHistory } from "./renderer-family.ts";
import { templateFingerprint } from "./template-text.ts";
import { remedyFor } from "../lib/nearest.ts";

const chatMl = {
  ...familyDefaults,
  startToken: "<|im_start|>",
  endToken: "<|im_end|>",
  closing: "\n",
  stopTokens: ["<|im_end|>", "<|endoftext|>"],
  toolCallParser: "qwen25",
} as const;
const appending = { ...chatMl, history: "append-only" } as const;
const thinking = { ...chatMl, reasoningParser: "qwen3" } as const;
const hybrid = { ...thinking, thinkingVariable: "enable_thinking" } as const;
const tagged = { toolCallParser: "qwen3_coder" } as const;

/**
 * The templates write answers back trimmed, so a history with blanks around an answer is rewritten.
 */
const llama = {
  ...familyDefaults,
  specialTokens: new Map([["bos_token", "<|begin_of_text|>"]]),
  startToken: "<|start_header_id|>",
  endToken: "<|eot_id|>",
  stopTokens: ["<|eot_id|>", "<|eom_id|>", "<|end_of_text|>"],
  toolCallParser: "llama3",
} as const;

/** A model stops with the token that opens the next message: the user's, or that of tool results. */
const glm = {
  ...familyDefaults,
  startToken: "<|user|>",
  endToken: null,
  stopTokens: ["<|user|>", "<|observation|>", "<|endoftext|>"],
  reasoningParser: "glm45",
  toolCallParser: "glm45",
  thinkingVariable: "enable_thinking",
} as const;

const kimi = {
  ...familyDefaults,
  startToken: "<|im_user|>",
  endToken: "<|im_end|>",
  stopTokens: ["<|im_end|>", "[EOS]"],
  toolCallParser: "kimi_k2",
} as const;

const deepseek = {
  ...familyDefaults,
  specialTokens: new Map([["bos_token", "<｜begin▁of▁sentence｜>"]]),
  startToken: "<｜User｜>",
  endToken: "<｜end▁of▁sentence｜>",
  stopTokens: ["<｜end▁of▁sentence｜>"],
  toolCallParser: "deepseekv3",
} as const;
const deepseekV31 = {
  ...deepseek,
  reasoningParser: "deepseek-v3",
  toolCallParser: "deepseekv31",
  thinkingVariable: "thinking",
} as const;

/** A result must follow a structured call and bear its id. */
const mistral = {
  ...familyDefaults,
  specialTokens: new Map([
    ["bos_token", "<s>"],
    ["eos_token", "</s>"],
  ]),
  startToken: "[INST]",
  endToken: "</s>",
  stopTokens: ["</s>"],
  toolCallParser: "mistral_ids",
  restate: restateCalls("mistral_ids", { always: false }),
  standIn: mistralStandIn,
} as const;

const lfm2 = {
  ...chatMl,
  specialTokens: new Map([["bos_token", "<|startoftext|>"]]),
  stopTokens: ["<|im_end|>"],
  toolCallParser: "lfm2",
} as const;

/** Facts for templates that refuse or omit results unless their calls are structured. */
const behindCalls = (parser: string) => ({
  restate: restateCalls(parser, { always: false }),
  standIn: mistralStandIn,
});

const minimax = {
  ...familyDefaults,
  startToken: "]~b]",
  endToken: "[e~[",
  closing: "\n",
  stopTokens: ["[e~["],
  toolCallParser: "minimax-m2",
} as const;

const laguna = {
  ...familyDefaults,
  startToken: "</assistant>",
  endToken: "</assistant>",
  closing: "\n",
  stopTokens: ["</assistant>", "〈|EOS|〉"],
  reasoningParser: "poolside_v1",
  toolCallParser: "poolside_v1",
  thinkingVariable: "enable_thinking",
} as const;

/**
 * Results are written only after structured calls, and some revisions open them in the message of
 * the call.
 */
const gemma4 = {
  ...familyDefaults,
  specialTokens: new Map([["bos_token", "<bos>"]]),
  history: "unproven",
  startToken: "<|turn>",
  endToken: "<turn|>",
  otherEnds: ["<|tool_response>"],
  closing: "\n",
  stopTokens: ["<turn|>", "<|tool_response>", "<eos>"],
  reasoningParser: "gemma4",
  toolCallParser: "gemma4",
  thinkingVariable: "enable_thinking",
  ...behindCalls("gemma4"),
} as const;

const rows: readonly RendererFamily[] = [
  { ...appending, name: "qwen2.5-instruct", fingerprints: ["30944e76e21d167d"], isBundledFormat: true },
  {
    ...appending,
    name: "qwen3-instruct-2507",
    // The last one is the bundled template, the one before it its earlier version without sentences
    // of our own.
    fingerprints: ["65b40f304f91638b", "1c4c6e4edbaaeec9", "0328c6e75fb83faa"],
    isBundledFormat: true,
  },
  { ...hybrid, name: "qwen3", fingerprints: ["6668575de86e1aae"] },
  { ...hybrid, name: "qwen3-rev2", fingerprints: ["4e73afe01bae85c9"] },
  { ...hybrid, name: "qwen3-miles-fixed", fingerprints: ["ac6c595863fdcd2b"] },
  { ...hybrid, name: "qwen3-skyrl-acc-thinking", fingerprints: ["ad7270a9190b05c8"] },
  { ...appending, ...tagged, name: "qwen3-coder", fingerprints: ["14958839f75cb6eb"] },
  { ...hybrid, ...tagged, name: "qwen3.5", fingerprints: ["b5a3b51b13dff0a0", "b022b465464c3d77"] },
  { ...thinking, name: "qwq-32b", fingerprints: ["90a33a1a188655e9"] },
  { ...llama, name: "llama-3.1-instruct", fingerprints: ["6cfeb92a6436cd38"] },
  { ...llama, name: "llama-3.2-instruct", fingerprints: ["7a0e4fcdd113cf54"] },
  {
    ...chatMl,
    name: "hermes-3-tool-use",
    fingerprints: ["836d83f1cdfcaaf3"],
    specialTokens: llama.specialTokens,
    // Its tool template loops over tools.
    noTools: [],
    stopTokens: ["<|im_end|>", "<|end_of_text|>"],
    toolCallParser: "hermes",
  },
  { ...glm, name: "glm-4.5", fingerprints: ["0cab2dca160a8949"] },
  { ...glm, name: "glm-4.6", fingerprints: ["016c9891aa073350"] },
  { ...glm, name: "glm-4.7-flash", fingerprints: ["639365fdea05c09e"], toolCallParser: "glm47" },
  { ...kimi, name: "kimi-k2", fingerprints: ["5d5cd143f364921e"], history: "append-only" },
  {
    ...kimi,
    name: "kimi-k2-thinking",
    fingerprints: ["e14902e2ccc522e0"],
    reasoningParser: "kimi_k2",
  },
  { ...deepseekV31, name: "deepseek-v3.1", fingerprints: ["8980afae8fe1e4a6"] },
  { ...deepseekV31, name: "deepseek-v3.1-sglang-tools", fingerprints: ["b4b163afc32c40cf"] },
  {
    ...deepseek,
    name: "deepseek-v3-sglang-tools",
    fingerprints: ["63a740cf1f3dc6a1"],
    standIn: standInAfterResults((message) => message.role === "assistant" && message.toolCalls.length > 0),
  },
  {
    ...deepseek,
    name: "deepseek-r1",
    fingerprints: ["15bb4ee75f2e9581"],
    reasoningParser: "deepseek-r1",
    standIn: standInAfterResults(() => false),
  },
  {
    ...hybrid,
    name: "smollm3",
    fingerprints: ["a231deb8d1331f27"],
    stopTokens: ["<|im_end|>", "<|end_of_text|>"],
    toolCallParser: "hermes",
    // The form of later turns depends on the system message.
    standIn: (history) => [...history.slice(0, 1).filter(({ role }) => role === "system"), ...shortestHistory],
  },
  {
    ...familyDefaults,
    name: "gpt-oss",
    fingerprints: ["ab396a6522c2e304"],
    startToken: "<|start|>",
    // An action is a run of blocks that ends with an answer (`<|return|>`) or a call (`<|call|>`).
    endToken: "<|end|>",
    otherEnds: ["<|return|>", "<|call|>"],
    stopTokens: ["<|return|>", "<|call|>", "<|endoftext|>"],
    reasoningParser: "gpt-oss",
    toolCallParser: "gpt-oss",
    actionFrame: "<|start|>assistant",
    wire: harmonyMessage,
    standIn: harmonyStandIn,
  },
  {
    ...minimax,
    name: "minimax-m3",
    fingerprints: ["02a9cc9890a41233"],
    reasoningParser: "minimax-m3",
    wire: minimaxMessage,
    standIn: minimaxStandIn,
  },
  { ...mistral, name: "mistral-nemo-2407", fingerprints: ["fccf0ecad5e3f753"] },
  { ...mistral, name: "mistral-small-3.2", fingerprints: ["e82384abef5763d5"] },
  {
    ...familyDefaults,
    name: "seed-oss",
    fingerprints: ["b73f8af41b998f38"],
    startToken: "<seed:bos>",
    endToken: "<seed:eos>",
    stopTokens: ["<seed:eos>"],
    reasoningParser: "seed_oss",
    toolCallParser: "seed_oss",
  },
  { ...hybrid, ...tagged, name: "qwen3.6", fingerprints: ["739df9338580c994"] },
  { ...hybrid, ...tagged, name: "qwen3.8", fingerprints: ["f3e3771e5d18fb8b", "ede42ec0ee9a4aac"] },
  {
    ...hybrid,
    name: "nemotron-3",
    // Nano, Super, Ultra, and 3.5 Lightning.
    fingerprints: ["b3a9f7bbec0fa7e9", "56c5bdd58d779fa8", "e976a7c65406c46b", "24eefc338061d22d"],
    stopTokens: ["<|im_end|>"],
    reasoningParser: "nemotron_3",
    toolCallParser: "qwen3_coder",
  },
  {
    ...thinking,
    name: "step-3.5-flash",
    fingerprints: ["18d37594f8d33948"],
    stopTokens: ["<|im_end|>"],
    reasoningParser: "step3p5",
    toolCallParser: "step3p5",
  },
  { ...lfm2, name: "lfm2", fingerprints: ["ec354004697e6640", "f8885de2f32caf54"] },
  { ...lfm2, name: "lfm2-rev2", fingerprints: ["4f034ffbddf40285"] },
  {
    ...lfm2,
    name: "lfm2.5",
    // Two revisions, the one for images, and Instruct, whose template shows tools without a format.
    fingerprints: ["e1c9c438d11e378a", "797fafb88031594b", "5f8e7dc598221353", "dc9d82ae61eb24aa"],
    reasoningParser: "qwen3",
  },
  {
    ...familyDefaults,
    name: "granite-4",
    fingerprints: ["d115753dbfc0a970", "5aa960cb70f6e089"],
    startToken: "<|start_of_role|>",
    endToken: "<|end_of_text|>",
    closing: "\n",
    stopTokens: ["<|end_of_text|>"],
    toolCallParser: "hermes",
  },
  { ...glm, name: "glm-5.1", fingerprints: ["f17dfc11dc2943f2"], toolCallParser: "glm47" },
  { ...glm, name: "glm-5.2", fingerprints: ["0b03d7e6b049a89e"], toolCallParser: "glm47" },
  {
    ...kimi,
    name: "kimi-k2.5",
    fingerprints: ["3f3c59f0e793fb28"],
    reasoningParser: "kimi_k2",
    thinkingVariable: "thinking",
  },
  {
    ...minimax,
    ...behindCalls("minimax-m2"),
    name: "minimax-m2",
    // llama.cpp's copy and the published one, then M2.5 and M2.7.
    fingerprints: ["b9d5c690a5f550de", "e87522a5094a3812", "3b16ebd93e830b67", "2142341fd0aa653d"],
    reasoningParser: "minimax",
  },
  {
    ...minimax,
    ...behindCalls("minimax-m3"),
    name: "minimax-m3-published",
    fingerprints: ["c7dc47b7b592b451"],
    reasoningParser: "minimax-m3",
    toolCallParser: "minimax-m3",
  },
  {
    ...familyDefaults,
    name: "ling-3",
    fingerprints: ["47486a2f7c067a67"],
    startToken: "<|role_end|>",
    endToken: "<|role_end|>",
    stopTokens: ["<|role_end|>"],
    reasoningParser: "ling3",
    toolCallParser: "ling3",
    thinkingVariable: "enable_thinking",
  },
  { ...laguna, name: "laguna-xs.2", fingerprints: ["a23d8b2ce1cb777c"] },
  { ...laguna, name: "laguna-xs-2.1", fingerprints: ["814cb14dcf82ddfb"] },
  { ...laguna, name: "laguna-s-2.1", fingerprints: ["e202d6c1500c9bbf"] },
  {
    ...deepseek,
    name: "deepseek-r1-distill",
    // The copy in its model folders, and two of llama.cpp's.
    fingerprints: ["f2c8d9b3be6dff86", "68a55626d2e7eda9"],
    reasoningParser: "deepseek-r1",
    standIn: standInAfterResults(() => false),
  },
  {
    ...gemma4,
    name: "gemma-4",
    // Five published revisions; vLLM's template; two of llama.cpp's, one of them for reasoning
    // between calls; Diffusion Gemma.
    fingerprints: [
      ...["6d177c326a835aeb", "8130b9aee132cf19", "874898fabe712af4", "b4f5a5c1d5a88a7e", "0cf6cfd845de3047"],
      ...["f80ec820e18d6c5f", "5184a582217ee2d2", "8ac3ad695df63fdf", "d16974693163a041"],
    ],
  },
  {
    ...familyDefaults,
    name: "muse-glimmer",
    fingerprints: ["201c0c6c636d6990", "7c929484d33cf84c"],
    specialTokens: new Map([["bos_token", "<|begin_of_text|>"]]),
    history: "unproven",
    startToken: "<|start|>",
    endToken: "<|eot|>",
    stopTokens: ["<|eot|>"],
    reasoningParser: "muse",
    toolCallParser: "muse",
  },
];

const byName: ReadonlyMap<string, RendererFamily> = new Map(rows.map((row) => [row.name, row]));
const byFingerprint: ReadonlyMap<string, RendererFamily> = new Map(
  rows.flatMap((row) => row.fingerprints.map((fingerprint) => [fingerprint, row] as const)),
);

export const rendererFamilyNames: readonly string[] = [...byName.keys()];

/** The family of a name. Throws a `ConfigurationError` that lists the known names. */
export function rendererFamily(name: string): RendererFamily {
  const family = byName.get(name);
  if (family !== undefined) return family;
  throw new ConfigurationError(
    `Cannot render for model family "${name}": it is not known; ${remedyFor(name, rendererFamilyNames)}`,
  );
}

/**
 * The family of a name, an encoder's own included. Throws a `ConfigurationError` that lists the
 * known names.
 */
export function familyNamed(name: string, chatTemplate: TemplateSource | undefined): RendererFamily {
  const isOwn = typeof chatTemplate === "function" && chatTemplate.family.name === name;
  return isOwn ? chatTemplate.family : rendererFamily(name);
}

/**
 * The family of a published chat template or of an encoder; `null` for any other: a template that differs in a character may
 * render differently.
 */
export function knownFamily(chatTemplate: TemplateSource): RendererFamily | null {
  if (typeof chatTemplate !== "string") return chatTemplate.family;
  return byFingerprint.get(templateFingerprint(chatTemplate)) ?? null;
}

/** The name of the family whose published chat template this is. Throws a `ConfigurationError` for any other template. */
export function familyOfChatTemplate(chatTemplate: string): string {
  const family = knownFamily(chatTemplate);
  if (family !== null) return family.name;
  throw new ConfigurationError(
    `Cannot name a model family: the chat template (fingerprint ${templateFingerprint(chatTemplate)}) is not a known one; ` +
      `name the family whose format it follows, one of ${rendererFamilyNames.join(", ")}.`,
  );
}
