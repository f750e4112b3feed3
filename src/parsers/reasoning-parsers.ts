// The reasoning parsers by SGLang's names, and `seed_oss`, which is ours. A table: most differ in their tags and in who may force reasoning.

import { ConfigurationError } from "../core/index.ts";
import { harmonyMarkers, readHarmony } from "./harmony.ts";
import { createTagReasoningParser, type ReasoningParser, type TagReasoningFormat } from "./reasoning-parser.ts";
import { restStage, silentStage } from "./streaming/reasoning-stage.ts";

const think = { start: "<think>", end: "</think>" };

const formats: readonly TagReasoningFormat[] = [
  { name: "deepseek-r1", ...think, forced: "always" },
  { name: "deepseek-v3", ...think, forced: "on-request" },
  { name: "deepseek-v4", ...think, forced: "on-request" },
  { name: "glm45", ...think, forced: "on-request" },
  { name: "interns1", ...think, forced: "on-request" },
  { name: "kimi", start: "◁think▷", end: "◁/think▷", forced: "never" },
  { name: "kimi_k2", ...think, forced: "on-request" },
  { name: "minimax", ...think, forced: "always" },
  { name: "minimax-m3", start: "<mm:think>", end: "</mm:think>", forced: "on-request" },
  { name: "nano_v3", ...think, forced: "on-request" },
  { name: "qwen3", ...think, forced: "on-request" },
  { name: "qwen3-thinking", ...think, forced: "always" },
  { name: "seed_oss", start: "<seed:think>", end: "</seed:think>", forced: "on-request" },
  { name: "step3", ...think, forced: "always" },
  { name: "step3p5", ...think, forced: "always" },
];

/** Marks everything as thought in the text itself, and splits nothing. */
const minimaxAppendThink: ReasoningParser = {
  name: "minimax-append-think",
  markers: [think.start, think.end],
  split: (text) => ({ reasoning: "", normalText: think.start + text }),
  startSplitting: () => restStage(think.start),
};

const gptOss: ReasoningParser = {
  name: "gpt-oss",
  markers: harmonyMarkers,
  // What a block is shows at its end only.
  startSplitting: () => silentStage,
  split: (text) => {
    const events = readHarmony(text);
    const join = (pieces: readonly string[]): string => pieces.join("");
    return {
      reasoning: join(events.filter(({ type }) => type === "reasoning").map(({ content }) => content)),
      // Calls keep their markers, because the tool-call parser reads them next.
      normalText: join(
        events.flatMap(({ type, content, raw }) => (type === "reasoning" ? [] : type === "tool-call" ? raw : content)),
      ),
    };
  },
};

const parsers: ReadonlyMap<string, ReasoningParser> = new Map(
  [...formats.map(createTagReasoningParser), minimaxAppendThink, gptOss].map((parser) => [parser.name, parser]),
);

export const reasoningParserNames: readonly string[] = [...parsers.keys()];

/** The reasoning parser of a name. Throws a `ConfigurationError` that lists the names there are. */
export function reasoningParser(name: string): ReasoningParser {
  const parser = parsers.get(name);
  if (parser !== undefined) return parser;
  throw new ConfigurationError(
    `Cannot split reasoning with parser "${name}": there is none of that name; use one of ${reasoningParserNames.join(", ")}.`,
  );
}
