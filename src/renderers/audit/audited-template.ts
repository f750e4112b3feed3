// A chat template under audit, with the renderer that the loop would use for it.

import type { Message, ParsedAction, Renderer, Tokenizer, Tool } from "../../core/index.ts";
import { toolFromDefinition } from "../../core/index.ts";
import { fromPlain, type JsonObject } from "../../python-semantics/json/index.ts";
import { reasoningParser, type ResponseTemplateParsers, toolCallParser } from "../../parsers/on-demand.ts";
import type { ChatTemplate, TemplateSource } from "../chat-template.ts";
import { familyFromTemplate } from "../detection/detect-family.ts";
import { probeTime, type Rendering, tryTemplate } from "../detection/template-prober.ts";
import { familyNamed, knownFamily } from "../families.ts";
import { type RendererFamily, wireMessages } from "../renderer-family.ts";
import { createTemplateRenderer, tokenNames } from "../template-renderer.ts";
import { compiledTemplate } from "../template-text.ts";

export type AuditTemplateOptions = {
  readonly tokenizer: Tokenizer;
  /** The Jinja program, or an encoder. */
  readonly chatTemplate: TemplateSource;
  /** `bos_token`, ... of the model folder. @default none */
  readonly specialTokens?: ReadonlyMap<string, string>;
  /** The family to render with, by name. @default the one that the loop chooses */
  readonly renderer?: string | null;
  /** Reaction of the loop where the template rewrites history. @default "keep-reasoning" */
  readonly history?: "keep-reasoning" | "branch";
  /** Turns thinking on or off. @default the template's own setting */
  readonly thinking?: boolean | null;
  /** Template variables by name. @default none */
  readonly templateKwargs?: JsonObject;
  /**
   * Makes the parsers of the checkpoint's own response template, which read what no listed parser
   * reads. @default the checkpoint has none
   */
  readonly responseTemplate?: () => ResponseTemplateParsers;
};

/** The tool that every audited conversation may call. */
export const auditTool: Tool = toolFromDefinition(
  fromPlain({
    type: "function",
    function: {
      name: "find_order",
      description: "Finds an order.",
      parameters: {
        type: "object",
        properties: { order_id: { type: "string", description: "Number of the order." } },
        required: ["order_id"],
      },
    },
  }) as JsonObject,
);

/** Opening of a thought, where it is longer than the first marker of its parser. */
const thoughtOpeners: Readonly<Record<string, string>> = { gemma4: "<|channel>thought" };

export class AuditedTemplate {
  readonly tokenizer: Tokenizer;
  readonly family: RendererFamily;
  readonly renderer: Renderer;
  /** "family": a row of the table, named or recognised. "template": detected. */
  readonly kind: "family" | "template";
  /** Parsers that read the answers. */
  readonly parsers: ResponseTemplateParsers;
  /**
   * Reason for these parsers: "own": they are those of the checkpoint's response template; else as
   * in `RendererFamily`.
   */
  readonly parserBasis: RendererFamily["toolCallBasis"] | "own";
  /** Tags of thinking; empty for families that do not think or mark it otherwise. */
  readonly thinkTags: readonly string[];
  /**
   * Difference between a named family and the one detected from the template; `null` if they agree.
   */
  readonly mismatch: string | null;
  /** Variables that the template reads. */
  readonly variables: readonly string[];
  readonly #template: ChatTemplate;
  readonly #specialTokens: JsonObject;
  readonly #kwargs: JsonObject;
  readonly #tools: readonly Tool[];

  /** Throws a `ConfigurationError` when no renderer can be made, with the reason. */
  constructor(options: AuditTemplateOptions, tools: readonly Tool[] = [auditTool]) {
    const { tokenizer, chatTemplate, specialTokens = new Map<string, string>() } = options;
    const [renderer, thinking] = [options.renderer ?? null, options.thinking ?? null];
    const known = knownFamily(chatTemplate);
    const named = renderer === null ? known : familyNamed(renderer, chatTemplate);
    const detect = (): RendererFamily => familyFromTemplate({ tokenizer, chatTemplate, specialTokens });
    this.kind = named === null ? "template" : "family";
    this.family = named ?? detect();
    this.mismatch = named === known ? null : mismatchOf(this.family, detect());
    const own = this.family.toolCallBasis === "unread" ? (options.responseTemplate?.() ?? null) : null;
    this.parsers = own ?? listedParsers(this.family);
    this.parserBasis = own === null ? this.family.toolCallBasis : "own";
    const { toolCallParser: calls, reasoningParser: reasoning } = this.parsers;
    const [opened, ...closed] = reasoning?.markers ?? [];
    const opener = (reasoning === null ? undefined : thoughtOpeners[reasoning.name]) ?? opened;
    this.thinkTags = opener === undefined || closed.length !== 1 ? [] : [opener, ...closed];
    this.tokenizer = tokenizer;
    this.renderer = createTemplateRenderer(this.family, tokenizer, {
      chatTemplate,
      specialTokens,
      historyPolicy: options.history ?? "keep-reasoning",
      // Named, so that a format that no parser reads becomes a finding and not a refusal.
      toolCallParser: calls.name,
      reasoningParser: reasoning?.name ?? "none",
      ...(own === null ? {} : { responseTemplate: () => own }),
      now: probeTime,
      ...(thinking === null ? {} : { thinking }),
      templateKwargs: options.templateKwargs ?? new Map(),
    });
    this.#template = compiledTemplate(chatTemplate);
    this.variables = this.#template.variables;
    this.#specialTokens = new Map([
      ...this.family.specialTokens,
      ...tokenNames(this.family, tokenizer),
      ...specialTokens,
    ]);
    this.#kwargs = this.renderer.templateKwargs ?? new Map();
    this.#tools = tools;
  }

  /** Renders messages in the form in which the loop gives them to the template. */
  render(messages: readonly Message[], options: { readonly addGenerationPrompt: boolean }): Rendering {
    return this.renderWire(wireMessages(this.family, messages), options);
  }

  /** The same for messages in the wire shape. */
  renderWire(messages: readonly JsonObject[], options: { readonly addGenerationPrompt: boolean }): Rendering {
    return tryTemplate(this.#template, {
      messages,
      ...options,
      tools: this.#tools.length === 0 ? this.family.noTools : this.#tools.map(({ definition }) => definition),
      kwargs: this.#kwargs,
      context: { specialTokens: this.#specialTokens, now: probeTime },
    });
  }

  /** Reads an answer as the loop would. */
  read({ body, end }: { readonly body: string; readonly end: string | null }, turn: number): ParsedAction {
    const { stopTokenIds } = this.renderer;
    const stop = end === null ? stopTokenIds[0] : this.tokenizer.tokenId(end);
    const tokens = [...this.tokenizer.encode(body), ...(stop === undefined || stop === null ? [] : [stop])];
    return this.renderer.parseAction(Uint32Array.from(tokens), { tools: this.#tools, turn });
  }
}

function mismatchOf(family: RendererFamily, detected: RendererFamily): string | null {
  const shown = (value: string | null): string => JSON.stringify(value) ?? "null";
  for (const [fact, name] of [
    ["endToken", "an answer ends with"],
    ["closing", "after an answer it writes"],
    ["thinkingVariable", "thinking is switched by"],
  ] as const) {
    const [expected, found] = [family[fact], detected[fact]];
    if (expected !== found) return `${name} ${shown(found)}, not ${shown(expected)}`;
  }
  return null;
}

function listedParsers(family: RendererFamily): ResponseTemplateParsers {
  return {
    toolCallParser: toolCallParser(family.toolCallParser),
    reasoningParser: family.reasoningParser === null ? null : reasoningParser(family.reasoningParser),
  };
}
