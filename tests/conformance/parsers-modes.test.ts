import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

import { describe, expect, test } from "vitest";

import { toolFromDefinition } from "../../src/core/index.ts";
import { type JsonObject, parseJson } from "../../src/python-semantics/json/index.ts";
import { pythonLstrip } from "../../src/python-semantics/index.ts";
import { createRandom, type Random } from "../../src/lib/random.ts";
import {
  type ParseDelta,
  type StreamedParse,
  type StreamingOptions,
  reasoningParser,
  startParsing,
  toolCallParser,
} from "../../src/parsers/index.ts";
import { textOf } from "./golden-file.ts";
import { committedGoldens, sharedFolder } from "./shared-folder.ts";

/** The larger set if it exists. */
const folder = sharedFolder("parsers-0.5.23") ?? committedGoldens("parsers");

type Vector = { readonly text: string; readonly options: StreamingOptions };

function vectorsOf(file: string): readonly Vector[] {
  const lines = readFileSync(join(folder, file), "utf8").split("\n").filter((line) => line !== ""); // prettier-ignore
  return lines.map((line) => {
    const record = parseJson(line) as JsonObject;
    const definitions = (record.get("tools") ?? []) as JsonObject[];
    const options = (record.get("options") ?? new Map()) as JsonObject;
    const reasoning = record.get("reasoning_parser");
    return {
      text: textOf(record, "text") ?? "",
      options: {
        toolCallParser: toolCallParser(textOf(record, "parser") ?? "hermes"),
        reasoningParser: typeof reasoning === "string" ? reasoningParser(reasoning) : null,
        tools: definitions.map(toolFromDefinition),
        forceReasoning: options.get("force_reasoning") === true,
      },
    };
  });
}

/** Pieces of one to a few characters, or few long ones. */
function cut(text: string, random: Random): readonly string[] {
  const longest = [1, 1, 3, 12, 200][random.integer(5)]!;
  const pieces: string[] = [];
  for (let at = 0; at < text.length;) {
    const length = 1 + random.integer(longest);
    pieces.push(text.slice(at, at + length));
    at += length;
  }
  return pieces;
}

type Played = { readonly pushed: readonly ParseDelta[]; readonly finished: StreamedParse };

function play(options: StreamingOptions, pieces: readonly string[]): Played {
  const parser = startParsing(options);
  const pushed = pieces.flatMap((piece) => [...parser.push(piece)]);
  return { pushed, finished: parser.finish() };
}

function joined(deltas: readonly ParseDelta[]) {
  const textIn = (type: "text" | "reasoning"): string =>
    deltas.flatMap((delta) => (delta.type === type ? delta.text : [])).join("");
  const calls: { name: string | null; parameters: string }[] = [];
  for (const delta of deltas) {
    if (delta.type === "call-start") calls[delta.index] = { name: delta.name, parameters: "" };
    if (delta.type === "call-arguments") calls[delta.index]!.parameters += delta.text;
  }
  return { reasoning: textIn("reasoning"), text: textIn("text"), calls };
}

function checkVector({ text, options }: Vector, random: Random): Played {
  const { reasoning, normalText } = options.reasoningParser?.split(text, options) ?? {
    reasoning: "",
    normalText: text,
  };
  const parse = options.toolCallParser.parse(normalText, options);
  const whole = play(options, [text]);
  for (const { pushed, finished } of [whole, play(options, cut(text, random)), play(options, cut(text, random))]) {
    expect({ reasoning: finished.reasoning, parse: finished.parse }).toEqual({ reasoning, parse });
    expect(finished.isAsShown).toBe(whole.finished.isAsShown);
    const shown = joined([...pushed, ...finished.deltas]);
    expect(shown).toEqual(joined([...whole.pushed, ...whole.finished.deltas]));
    for (const end of options.toolCallParser.hints.contentEnd) expect(joined(pushed).text).not.toContain(end);
    if (!finished.isAsShown) continue;
    expect(shown).toEqual({
      reasoning,
      text: pythonLstrip(parse.content),
      calls: parse.calls.map(({ name, parameters }) => ({ name, parameters })),
    });
  } // prettier-ignore
  return whole;
}

function isObject(text: string): boolean {
  try {
    return parseJson(text) instanceof Map;
  } catch {
    return false;
  }
}

describe("streaming and repair on every vector", () => {
  const files = readdirSync(folder).filter((file) => file.endsWith(".jsonl"));

  test.each(files)("%s: any pieces give the result of the whole text, and deltas that join to it", (file) => {
    const random = createRandom(files.indexOf(file));
    const played = vectorsOf(file).map((vector) => checkVector(vector, random));
    const thought = { reasoningParser: reasoningParser("qwen3") };
    for (const { text, options } of vectorsOf(file).filter((_, index) => index % 8 === 0)) {
      const thoughtful = `<think>\nHm, <tool_call>.\n</think>\n\n${text}`;
      checkVector({ text: thoughtful, options: { ...options, ...thought } }, random);
    }
    const kept = played.filter(({ finished }) => finished.isAsShown);
    // Streamed text nearly always matches the result; the exceptions are texts in which one invalid
    // call discards all others.
    expect(kept.length / played.length).toBeGreaterThan(0.85);
  });

  test.each(files)("%s: repair never changes what is read without a problem, and never loses a call", (file) => {
    for (const { text, options } of vectorsOf(file)) {
      const strict = options.toolCallParser.parse(text, options);
      const repaired = options.toolCallParser.parse(text, { ...options, repair: true });
      const isClean = strict.problems.length === 0 && strict.calls.every(({ parameters }) => isObject(parameters));
      const isRepaired = repaired.problems.some(({ code }) => code === "repaired");
      if (isClean || !isRepaired) expect(repaired).toEqual(strict);
      expect(repaired.calls.length).toBeGreaterThanOrEqual(strict.calls.length);
    }
  });

  test("words and calls are shown before the end, not only with it", () => {
    const names = files.filter((file) => file !== "reasoning.jsonl").map((file) => file.slice(0, -".jsonl".length));
    const atEndOnly = ["gigachat3", "llama3", "mistral", "pythonic"];
    for (const name of names) {
      const played = vectorsOf(`${name}.jsonl`).map(({ text, options }) =>
        joined(play(options, text.split("")).pushed),
      );
      expect(played.some(({ text }) => text !== "")).toBe(true);
      expect([name, played.some(({ calls }) => calls.length > 0)]).toEqual([name, !atEndOnly.includes(name)]);
    }
  });
});
