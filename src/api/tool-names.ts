// Tools whose names the model's call format cannot write, reported before they are needed: even a
// perfect call of one would be text to the user. Loaded when a policy with tokens is connected, and
// by the doctor commands.

import {
  type AgentStrategy,
  type EnvironmentSource,
  lookIntoEnvironment,
  type Renderer,
  type Task,
  type Tool,
} from "../core/index.ts";
import { schemaWarnings } from "../agents/on-demand.ts";
import type { JsonObject } from "../python-semantics/json/index.ts";
import { unwritableNames } from "../renderers/on-demand.ts";
import type { ChosenModel } from "./choose-model.ts";

/** Maximum number of names in one sentence; the others are counted. */
const mostNamed = 10;

/** Quoted names in one line, such as `"a/b", "c d" and 3 more`. */
export function namedTools(names: readonly string[]): string {
  const named = names.slice(0, mostNamed).map((name) => JSON.stringify(name));
  return names.length > mostNamed ? `${named.join(", ")} and ${names.length - mostNamed} more` : named.join(", ");
}

export class ToolNames {
  readonly #model: Pick<ChosenModel, "renderer" | "tokenizer">;
  readonly #onNotice: (message: string) => void;
  readonly #known: Set<string>;

  /** `known`: names that were already examined; this set grows. */
  constructor(
    model: Pick<ChosenModel, "renderer" | "tokenizer">,
    { known, onNotice }: { readonly known: Set<string>; readonly onNotice: (message: string) => void },
  ) {
    this.#model = model;
    this.#onNotice = onNotice;
    this.#known = known;
  }

  /** Reports, each once, the tools that cannot be called, and those whose arguments are not checked. */
  examine(tools: readonly Tool[]): void {
    const fresh = tools.filter(({ name }) => !this.#known.has(name));
    if (fresh.length === 0) return;
    const names = fresh.map(({ name }) => name);
    for (const warning of schemaWarnings(fresh)) this.#onNotice(`Warning: ${warning}`);
    for (const name of names) this.#known.add(name);
    const { renderer, tokenizer } = this.#model;
    const unwritable = unwritableNames(renderer, tokenizer, names);
    if (unwritable.length === 0) return;
    const [tool, it] = unwritable.length === 1 ? ["tool", "its name does"] : ["tools", "their names do"];
    this.#onNotice(
      `Warning: the policy cannot call ${tool} ${namedTools(unwritable)}: ${it} not come back out of a call in the format ` +
        `"${renderer.parsers.toolCalls}"; rename ${unwritable.length === 1 ? "it" : "them"}, or choose another model or --tool-parser.`,
    );
  }

  /**
   * Examines the tools that a policy sees in a task, if its environment opens at once. Faults are
   * left to the episodes.
   */
  examineTask(task: Task, environment: EnvironmentSource, strategy: AgentStrategy): void {
    // A remote world may have room for only one session, or be slow to open: its tools are examined
    // when they are shown.
    if (environment.boundsOpening === true) return;
    try {
      const shown = lookIntoEnvironment(environment, task, ({ guidelines, tools }) =>
        strategy.open({ guidelines, tools, firstUtterance: "", seed: 0 }),
      );
      if (shown !== null) this.examine(shown.tools);
    } catch {
      // The first episode reports the error.
    }
  }

  /** The renderer, which examines tools when they are shown for the first time. */
  watched(renderer: Renderer = this.#model.renderer): Renderer {
    const { inSteps } = renderer;
    return {
      ...renderer,
      renderPrompt: (messages, tools) => {
        this.examine(tools);
        return renderer.renderPrompt(messages, tools);
      },
      ...(renderer.withTemplateKwargs !== undefined && {
        withTemplateKwargs: (kwargs: JsonObject) => {
          const changed = renderer.withTemplateKwargs!(kwargs);
          return { ...changed, renderer: this.watched(changed.renderer) };
        },
      }),
      ...(inSteps !== undefined && {
        inSteps: {
          bridge: (input) => inSteps.bridge(input),
          renderPrompt: (messages, tools) => {
            this.examine(tools);
            return inSteps.renderPrompt(messages, tools);
          },
        },
      }),
    };
  }
}
