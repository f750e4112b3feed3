import { expect, test } from "vitest";

import { systemClock } from "../lib/clock.ts";
import { createRandom, deriveSeed, type Random } from "../lib/random.ts";
import { exampleTools as tools, formatExamples } from "./formats/format-examples.test-helper.ts";
import { reasoningParser, reasoningParserNames, toolCallParser } from "./index.ts";
import { startParsing } from "./streaming.ts";

const isFull = process.env["FULL"] === "1";
const names = [...Object.keys(formatExamples), ...reasoningParserNames.map((name) => `reasoning ${name}`)];
/** Number of mutated texts for all parsers together. */
const total = isFull ? 1_000_000 : 4_000;
const perParser = Math.ceil(total / names.length);
/** Far above the time to read such a text, which is well under a millisecond. */
const hangMs = 5_000;

const noise = [
  "\n", " ", "\t", '"', "'", "\\", "{", "}", "[", "]", "(", ")", "<", ">", ",", ":", "=", "/", "|", ";", "-", "+", "*", "&", "&lt;", "&#0;", "#", "`", "\0", "\u0085", "\u2028", "é", "٣", "\ud83d\ude00", "\ud800", "\udc00", "\ufeff",
  "null", "None", "True", "NaN", "Infinity", "1e400", "0x1F", "1_0", "9".repeat(30), "9".repeat(4400), "\\u00", "\\ud800", "b''", "f'{x}'", "'''", "lambda", "set()", "1j", "(1,)", "**", ":=", "commentary", "assistantfinal", "analysis", "<think>", "</think>",
]; // prettier-ignore

const allFragments = Object.values(formatExamples).flatMap(([whole]) => fragmentsOf(whole));

function fragmentsOf(text: string): readonly string[] {
  return text.match(/<[^<>]*>|\w+|\s+|[^\w\s]/gu) ?? [];
}

/**
 * A valid text with some of its pieces dropped, doubled, swapped, repeated, truncated, or mixed
 * with noise and other syntaxes.
 */
function mutate(text: string, random: Random): string {
  const pieces = [...fragmentsOf(text)];
  for (let count = 1 + random.integer(6); count > 0; count--) {
    const at = random.integer(pieces.length + 1);
    const other = random.integer(pieces.length + 1);
    switch (random.integer(9)) {
      case 0:
        pieces.splice(at, 1 + random.integer(4));
        break;
      case 1:
        pieces.splice(at, 0, ...pieces.slice(at, at + 1 + random.integer(8)));
        break;
      case 2:
        pieces.splice(at, 0, random.pick(noise));
        break;
      case 3:
        pieces.splice(at, 1, random.pick(noise));
        break;
      case 4:
        pieces.splice(at, 0, random.pick(allFragments));
        break;
      case 5:
        pieces.splice(at, 0, pieces[other] ?? "");
        break;
      case 6:
        pieces.splice(
          at,
          0,
          random
            .pick(noise)
            .slice(0, 4)
            .repeat(1 + random.integer(40)),
        );
        break;
      case 7:
        if (random.integer(3) === 0) pieces.length = at;
        break;
      default: {
        const piece = pieces[at] ?? "";
        const cut = random.integer(piece.length + 1);
        pieces.splice(at, 1, piece.slice(0, cut), random.pick(noise), piece.slice(cut));
      }
    }
  }
  return pieces.join("");
}

function readWith(name: string, text: string, random: Random): void {
  if (name.startsWith("reasoning ")) {
    const parser = reasoningParser(name.slice("reasoning ".length));
    const forceReasoning = random.integer(2) === 0;
    const split = parser.split(text, { forceReasoning });
    if (!text.includes("\0") && typeof split.reasoning !== "string") expect.fail(name);
    const stage = parser.startSplitting({ forceReasoning });
    for (let at = 0; at < text.length; at += 7) stage.push(text.slice(at, at + 7));
    return;
  }
  const parser = toolCallParser(name);
  const forwardUnknownTools = random.integer(4) === 0;
  parser.hasToolCall(text);
  const { calls, content, raised } = parser.parse(text, { tools, forwardUnknownTools });
  if (calls.length === 0 && content !== text) expect.fail(`${name} drops words: ${JSON.stringify(text)}`);
  if (raised !== null && calls.length > 0) expect.fail(`${name} gives calls and an exception: ${JSON.stringify(text)}`);
  parser.parse(text, { tools, repair: true });
  if (random.integer(8) > 0) return;
  const streaming = startParsing({ toolCallParser: parser, reasoningParser: null, tools });
  for (let at = 0; at < text.length; at += 5) streaming.push(text.slice(at, at + 5));
  streaming.finish();
}

test(`${perParser * names.length} mutated texts: no parser throws, hangs or drops words, strictly, repairing or streaming`, () => {
  let slowest = 0;
  let read = 0;
  for (const name of names) {
    const random = createRandom(deriveSeed(1, name));
    const [whole] = formatExamples[name] ?? random.pick(Object.values(formatExamples));
    const good = name.startsWith("reasoning ") ? `<think>Well.</think>${whole}` : whole;
    for (let count = 0; count < perParser; count++) {
      const text = mutate(good, random);
      const start = systemClock.now();
      try {
        readWith(name, text, random);
      } catch (cause) {
        throw new Error(`Cannot read a mutated text with ${name}: ${JSON.stringify(text)}.`, { cause });
      }
      slowest = Math.max(slowest, systemClock.now() - start);
      read++;
    }
  }
  expect(read).toBe(perParser * names.length);
  expect(slowest).toBeLessThan(hangMs);
}, 1_800_000);
