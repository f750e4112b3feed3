// Properties of every family, for any template: prompts are the template's, and a bridge appends
// exactly what the template writes for the new messages after the whole history, or follows the
// named history policy.

import fc from "fast-check";
import { describe, expect, test } from "vitest";

import { addAllFormats } from "../parsers/all-formats.ts";
import type { BridgeInput, Message, Renderer, Tokenizer } from "../core/index.ts";
import type { JsonObject } from "../python-semantics/json/index.ts";
import { type TemplateSegment, type TemplateSource } from "./chat-template.ts";
import { segmentsText } from "./segments.ts";
import { encoderSamples, encoderTypes, testEncoder } from "./encoders/encoders.test-helper.ts";
import { rendererFamily, rendererFamilyNames } from "./families.ts";
import { familySamples } from "./family-samples.test-helper.ts";
import { byteTokenizer, mergingTokenizer } from "./marker-tokenizer.test-helper.ts";
import { familiesAtHand, publishedTemplate } from "./published-templates.test-helper.ts";
import {
  conversations,
  play,
  someTools,
  templateSegments,
  testTime as now,
  words,
} from "./random-conversation.test-helper.ts";
import type { RendererFamily } from "./renderer-family.ts";
import { createTemplateRenderer, historyEnd, type RendererOptions } from "./template-renderer.ts";

addAllFormats();

test("every family has its samples here", () => {
  const remedy = "add what is missing to family-samples.test-helper.ts: what a model of the family writes";
  expect(Object.keys(familySamples).toSorted(), remedy).toEqual([...rendererFamilyNames].toSorted());
});

type Setting = { readonly options: RendererOptions; readonly kwargs: JsonObject };

/** Families whose prompts are made by code, with sentences of our own. */
const encoders = new Map(
  (await Promise.all(encoderTypes.map((type) => testEncoder(type)))).map((encoder) => [encoder.family.name, encoder]),
);

describe.each([...familiesAtHand, ...encoders.keys()])("%s", async (name) => {
  const sample = familySamples[name] ?? encoderSamples[name]!;
  const chatTemplate = encoders.get(name) ?? publishedTemplate(name);
  const family = encoders.get(name)?.family ?? rendererFamily(name);
  const markers = [
    ...[family.startToken, ...family.stopTokens, ...sample.markers],
    ...[...family.specialTokens.values()].map(String),
  ];
  const merging = await mergingTokenizer(markers);
  const tokenizers = [await byteTokenizer(markers), ...(merging === null ? [] : [merging])];
  const actions = fc.oneof(
    words,
    fc.constantFrom(sample.call, `Well.\n${sample.call}`, ...(sample.thought === null ? [] : [sample.thought])),
  );
  // Templates that look for a user's text refuse conversations without any.
  const generated = conversations(actions).map((conversation) => ({
    ...conversation,
    opening: conversation.opening.map((message) => ({
      ...message,
      content: message.content.replaceAll("<tool_response>", ""),
    })),
    steps: conversation.steps.map((step) => ({
      ...step,
      action: sample.leavesBlankOpen === true && step.action.trim() === "" ? "Hello!" : step.action,
      answers:
        sample.needsCallBeforeResults === true && step.action !== sample.call
          ? asWords(step.answers)
          : step.answers.slice(0, sample.countsResults === true ? 1 : undefined),
    })),
  }));
  const settings: readonly Setting[] = [
    { options: { now }, kwargs: new Map() },
    ...(family.thinkingVariable === null ? [] : [true, false]).map((thinking) => ({
      options: { now, thinking },
      kwargs: new Map([[family.thinkingVariable!, thinking]]),
    })),
  ];

  describe.each(tokenizers)("with tokenizer $name", (tokenizer) => {
    const create = (options: RendererOptions): Renderer =>
      createTemplateRenderer(family, tokenizer, { chatTemplate, ...options });
    // Every step compares whole prompts, which costs more with a large vocabulary.
    const numRuns = tokenizer.name === "bytes" ? 20 : 8;
    const stop = (action: string): number | null =>
      sample.callEnd === undefined || action !== sample.call ? null : tokenizer.tokenId(sample.callEnd);
    const asDecoded = (text: string): string => tokenizer.decode(tokenizer.encode(text));

    test("a prompt is what the template writes, and its spans are the messages", () => {
      for (const { options, kwargs } of settings) {
        const renderer = create({ ...options, controlTokens: "parse" });
        fc.assert(
          fc.property(generated, ({ opening, tools, steps }) => {
            const messages = [...opening, assistant(steps[0]!.action), ...steps[0]!.answers];
            const prompt = renderer.renderPrompt(messages, tools);
            const segments = templateSegments(family, messages, { tools, kwargs, chatTemplate });
            expect(prompt.text).toBe(segmentsText(segments));
            expect([...prompt.tokens]).toEqual([...tokenizer.encode(prompt.text)]);
            expect(prompt.spans.map(({ message }) => message)).toEqual(messages.map((_, index) => index));
          }),
          { seed: 17, numRuns },
        );
      }
    });

    test("a bridge appends what the template writes after the whole history", () => {
      for (const { options, kwargs } of settings) {
        const renderer = create({ ...options, controlTokens: "parse" });
        fc.assert(
          fc.property(generated, (conversation) => {
            const checked = checkedBridge(renderer, { family, tokenizer, kwargs, chatTemplate });
            const extending: Renderer = {
              ...checked,
              bridge: (input) => {
                const result = checked.bridge(input);
                if (family.history !== "unproven") expect(result.type).toBe("extended");
                return result;
              },
            };
            play(extending, conversation, { tokenizer, stop }, () => {});
          }),
          { seed: 5, numRuns },
        );
      }
    });

    test("the whole prompt reads as the template writes it, where it is append-only or starts branches", () => {
      for (const { options, kwargs } of settings) {
        const renderer = create({ ...options, historyPolicy: "branch" });
        fc.assert(
          fc.property(generated, (conversation) => {
            play(renderer, conversation, { tokenizer, stop }, ({ tokens, messages }) => {
              const text = segmentsText(
                templateSegments(family, messages, { tools: conversation.tools, kwargs, chatTemplate }),
              );
              expect(tokenizer.decode(tokens).normalize()).toBe(asDecoded(text).normalize());
            });
          }),
          { seed: 7, numRuns },
        );
      }
    });

    test("a system message in the middle is appended, or refused with a reason", () => {
      const renderer = create({ now });
      const messages: readonly Message[] = [{ role: "user", content: "hi" }, assistant("hello")];
      const lastAction = Uint32Array.from([...tokenizer.encode("hello"), ...renderer.stopTokenIds.slice(0, 1)]);
      const input: BridgeInput = {
        messages,
        tools: [],
        lastAction,
        newMessages: [{ role: "system", content: "rule" }],
      };
      const outcome = outcomeOf(() =>
        checkedBridge(renderer, { family, tokenizer, kwargs: new Map(), chatTemplate }).bridge(input),
      );
      expect(outcome).toMatch(systemOutcome[name] ?? /^extended$/);
    });

    test("reads its own calls and thoughts", () => {
      const renderer = create({ now });
      const end = tokenizer.decode(renderer.stopTokenIds.slice(0, 1));
      const read = (text: string) => renderer.parseAction(tokenizer.encode(text), { tools: someTools, turn: 2 });
      const call = read(
        sample.callEnd === undefined ? afterThought(sample.thought, sample.call) + end : sample.call + sample.callEnd,
      );
      expect(call).toMatchObject({ isTerminated: true, problems: [] });
      expect(call.toolCalls.map(({ id, name: tool }) => [id, tool])).toEqual([["call_2_0", "find_order"]]);
      expect(JSON.parse(call.toolCalls[0]!.argumentsText)).toEqual({ order_id: "#W1" });
      if (sample.thought !== null) {
        const { reasoning, content } = read(sample.thought + end);
        expect([reasoning?.trim(), content.trim()]).toEqual(["I should look.", "Hello!"]);
      }
    });
  });
});

const movesToFront = /moves message 2 to the front$/;

/** Outcomes of templates that move system messages or refuse them. */
const systemOutcome: Readonly<Record<string, RegExp>> = {
  "qwen3.5": /^System message must be at the beginning/,
  "qwen3.6": /^System message must be at the beginning/,
  "qwen3.8": /^System message must be at the beginning/,
  "deepseek-r1-distill": movesToFront,
  "muse-glimmer": /^the chat template of "muse-glimmer" r/,
  "deepseek-v3.1": movesToFront,
  "deepseek-v3.1-sglang-tools": movesToFront,
  "deepseek-v3-sglang-tools": movesToFront,
  "deepseek-r1": movesToFront,
  "mistral-nemo-2407": /conversation roles must alternate/,
  "mistral-small-3.2": /conversation roles must alternate/,
};

function assistant(content: string): Message {
  return { role: "assistant", content, reasoning: null, toolCalls: [] };
}

/** Tool results as user messages. */
function asWords(answers: readonly Message[]): readonly Message[] {
  return answers.slice(0, 1).map(({ content }) => ({ role: "user", content }));
}

function outcomeOf(bridge: () => ReturnType<Renderer["bridge"]>): string {
  try {
    const result = bridge();
    return result.type === "refused" ? result.reason : result.type;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

/** Puts a call after the closing tag, for families whose generation prompt opens the thinking. */
function afterThought(thought: string | null, call: string): string {
  return thought === null ? call : thought.replace("Hello!", () => call);
}

type Check = {
  readonly family: RendererFamily;
  readonly tokenizer: Tokenizer;
  readonly kwargs: JsonObject;
  readonly chatTemplate: TemplateSource;
};

/** Compares what a bridge appends with the end of the family's own rendering of everything. */
function checkedBridge(renderer: Renderer, { family, tokenizer, kwargs, chatTemplate }: Check): Renderer {
  const { endToken, otherEnds, closing } = family;
  const ends = [endToken ?? "", ...otherEnds];
  return {
    ...renderer,
    bridge: (input) => {
      const result = renderer.bridge(input);
      if (result.type === "refused") return result;
      const { messages, tools, newMessages, lastAction } = input;
      // If tools and the system message would move, the stream is that of a conversation without
      // them.
      const isMoved = familySamples[family.name]?.movesTools === true;
      const first = isMoved && messages[0]?.role === "system" ? 1 : 0;
      const whole = [...messages.slice(first), ...newMessages];
      const segments = templateSegments(family, whole, { tools: isMoved ? [] : tools, kwargs, chatTemplate });
      const { end: lastSegment } = historyEnd(segments, messages.length - first);
      const history = segmentsText(segments.slice(0, lastSegment + 1));
      expect(ends.some((end) => history.endsWith(end + closing))).toBe(true);
      const hasEnd = endToken === null || ends.some((end) => lastAction.at(-1) === tokenizer.tokenId(end));
      const isEnded = hasEnd && [...ends.map((end) => tokenizer.tokenId(end)), ...renderer.stopTokenIds].includes(lastAction.at(-1) ?? -1); // prettier-ignore
      const { text: action } = renderer.parseAction(lastAction, { tools, turn: 0 });
      const thoughtEnd = isEnded && endToken === null ? "" : renderer.unclosedThought!(action);
      const end = thoughtEnd !== "" || !hasEnd ? (endToken ?? "") : "";
      const written = tokenizer.encode(thoughtEnd + end + closing + textAfter(segments, lastSegment));
      const isOpened = endToken === null && written[0] === lastAction.at(-1);
      expect([...result.tokens]).toEqual([...(isOpened ? written.subarray(1) : written)]);
      return result;
    },
  };
}

function textAfter(segments: readonly TemplateSegment[], place: number): string {
  return segmentsText(segments.slice(place + 1));
}
