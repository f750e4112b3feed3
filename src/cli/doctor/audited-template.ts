// A chat template under audit: the user's own Jinja program beside the renderer that the loop would use for it. Every
// rendering asks both, so that a native renderer that strays from the template is found whatever is rendered.

import {
  ConfigurationError,
  type Message,
  type ParsedAction,
  type Renderer,
  type Tokenizer,
  type Tool,
  toolFromDefinition,
} from "../../core/index.ts";
import { fromPlain, type JsonObject } from "../../python-semantics/json/index.ts";
import {
  type ChatTemplate,
  ChatTemplateError,
  chooseRenderer,
  compileChatTemplate,
  familyFromTemplate,
  type RendererFamily,
  rendererFamily,
  rendererFamilyNames,
  rendererFor,
  segmentsText,
  type TemplateSegment,
  wireMessages,
} from "../../renderers/index.ts";

export type AuditInput = {
  readonly tokenizer: Tokenizer;
  /** The Jinja program; `null`: that of the family, which must then be named. */
  readonly chatTemplate: string | null;
  /** `bos_token`, ... of the model folder. */
  readonly specialTokens: ReadonlyMap<string, string>;
  /** A family to render with; `null`: the one that the loop chooses. */
  readonly family: string | null;
  readonly historyPolicy: "keep-reasoning" | "branch";
  /** `null`: as the template has it. */
  readonly thinking: boolean | null;
};

export type Rendering =
  | { readonly type: "text"; readonly text: string; readonly segments: readonly TemplateSegment[] }
  | { readonly type: "refused"; readonly error: string };

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

/** Any time will do; templates that write the date must write the same one each time. */
const auditTime = "2026-01-31T12:00:00";

export class AuditedTemplate {
  readonly tokenizer: Tokenizer;
  readonly family: RendererFamily;
  readonly renderer: Renderer;
  /** The user's own program; `null`: there is only that of the family. */
  readonly #own: ChatTemplate | null;
  readonly #input: AuditInput;
  readonly #tools: readonly Tool[];
  #strayed: string | null = null;

  /** Throws a `ConfigurationError` when no renderer can be made, with the reason. */
  constructor(input: AuditInput, tools: readonly Tool[] = [auditTool]) {
    this.#input = input;
    this.#tools = tools;
    this.tokenizer = input.tokenizer;
    const options = {
      historyPolicy: input.historyPolicy,
      now: auditTime,
      ...(input.thinking === null ? {} : { thinking: input.thinking }),
    };
    const { tokenizer, chatTemplate, specialTokens, family } = input;
    if (chatTemplate === null && family === null) {
      throw new ConfigurationError("Cannot render: there is no chat template; name the model family with --renderer.");
    }
    this.renderer =
      family === null
        ? chooseRenderer({ ...options, tokenizer, chatTemplate: chatTemplate ?? "", specialTokens })
        : rendererFor(family, tokenizer, options);
    this.family = this.isNative
      ? rendererFamily(this.renderer.family)
      : familyFromTemplate({ tokenizer, chatTemplate: chatTemplate ?? "", specialTokens });
    this.#own = chatTemplate === null ? null : compile(chatTemplate);
  }

  get isNative(): boolean {
    return rendererFamilyNames.includes(this.renderer.family);
  }

  /** How the native renderer strays from the template in what was rendered so far; `null`: it does not. */
  get strayed(): string | null {
    return this.#strayed;
  }

  /** What the template writes for messages as the loop gives them to it. */
  render(messages: readonly Message[], options: { readonly addGenerationPrompt: boolean }): Rendering {
    return this.renderWire(wireMessages(this.family, messages), options);
  }

  /** The same for messages in the wire shape. */
  renderWire(messages: readonly JsonObject[], options: { readonly addGenerationPrompt: boolean }): Rendering {
    const own = this.#own === null ? null : this.#renderWith(this.#own, new Map(this.#input.specialTokens), { messages, ...options }); // prettier-ignore
    if (own !== null && !this.isNative) return own;
    const native = this.#renderWith(this.family.template, this.family.specialTokens, { messages, ...options });
    if (own === null) return native;
    this.#strayed ??= strayOf(own, native);
    return own;
  }

  /** What the loop would read in an answer. */
  read({ body, end }: { readonly body: string; readonly end: string | null }, turn: number): ParsedAction {
    const { stopTokenIds } = this.renderer;
    const stop = end === null ? stopTokenIds[0] : this.tokenizer.tokenId(end);
    const tokens = [...this.tokenizer.encode(body), ...(stop === undefined || stop === null ? [] : [stop])];
    return this.renderer.parseAction(Uint32Array.from(tokens), { tools: this.#tools, turn });
  }

  #renderWith(
    template: ChatTemplate,
    specialTokens: JsonObject,
    input: { readonly messages: readonly JsonObject[]; readonly addGenerationPrompt: boolean },
  ): Rendering {
    const { thinkingVariable } = this.family;
    const { thinking } = this.#input;
    try {
      const segments = template({
        ...input,
        tools: this.#tools.length === 0 ? this.family.noTools : this.#tools.map(({ definition }) => definition),
        kwargs: new Map(thinking === null || thinkingVariable === null ? [] : [[thinkingVariable, thinking]]),
        context: { specialTokens, now: auditTime },
      });
      return { type: "text", text: segmentsText(segments), segments };
    } catch (error) {
      if (error instanceof ChatTemplateError) return { type: "refused", error: error.message };
      throw error;
    }
  }
}

function compile(chatTemplate: string): ChatTemplate {
  try {
    return compileChatTemplate(chatTemplate);
  } catch (error) {
    if (!(error instanceof ChatTemplateError)) throw error;
    throw new ConfigurationError(`Cannot audit the chat template: ${error.message}`, { cause: error });
  }
}

/** `null` when both say the same; refusals may be worded differently. */
function strayOf(own: Rendering, native: Rendering): string | null {
  if (own.type !== native.type) return own.type === "refused" ? `the template refuses: ${own.error}` : "it refuses what the template writes"; // prettier-ignore
  if (own.type === "refused" || native.type === "refused" || own.text === native.text) return null;
  let at = 0;
  while (own.text[at] === native.text[at]) at++;
  const excerpt = (text: string): string => JSON.stringify(text.slice(Math.max(0, at - 16), at + 48));
  return `the template writes ${excerpt(own.text)} where the renderer writes ${excerpt(native.text)}`;
}
