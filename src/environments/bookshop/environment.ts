// The world of one episode: the shop's data, what the desk did, and whether that was right. Graded as τ-bench grades: the
// data must equal its gold end state, breaches of the rules included, and the facts that the member wanted must have been
// said. Pure apart from itself: no clock, no randomness, no user.

import { createHash } from "node:crypto";
import type { Ending, Environment, EnvironmentCall, Grade, ToolResult, Task } from "../../core/environment.ts";
import type { Tool } from "../../core/message.ts";
import type { JsonObject, JsonValue } from "../../python-semantics/json/index.ts";
import { mentions } from "../../lib/text.ts";
import { brokenRules, readChange, shown, textOf } from "./change.ts";
import { describeRecord, copyShop, type Shop, shopText } from "./shop.ts";
import type { Fact } from "./goals/index.ts";
import { guidelines, tools } from "./tool-definitions.ts";
import type { Scenario } from "./scenario.ts";

export class BookshopEnvironment implements Environment {
  readonly task: Task;
  readonly guidelines: string = guidelines;
  readonly tools: readonly Tool[] = tools;
  readonly info: JsonObject;
  readonly #scenario: Scenario;
  readonly #shop: Shop;
  readonly #reported: string[] = [];
  readonly #unsaid: Set<Fact>;
  #servedMember: string | null = null;
  #saidSinceChange: string[] = [];
  #errors = 0;
  #lookUps = 0;
  #changes = 0;

  constructor(task: Task, scenario: Scenario) {
    this.task = task;
    this.#scenario = scenario;
    this.#shop = copyShop(scenario.shop);
    this.#unsaid = new Set(scenario.goals.flatMap((goal) => goal.facts));
    this.info = new Map<string, JsonValue>([
      ["kind", scenario.kind],
      ["level", scenario.level],
      ["cases", scenario.goals.map((goal) => `${goal.kind}/${goal.caseName}`)],
    ]);
  }

  call(call: EnvironmentCall): ToolResult {
    return call.name === "look_up" ? this.#lookUp(textOf(call.arguments, "id")) : this.#change(call);
  }

  hear(words: string): void {
    this.#saidSinceChange.push(words);
    for (const fact of this.#unsaid) {
      const isKnown = fact.sources.every((source) => this.#reported.some((text) => mentions(text, source)));
      if (isKnown && fact.said.some((way) => mentions(words, way))) this.#unsaid.delete(fact);
    }
  }

  grade({ outcome }: Ending): Grade {
    const isStateRight = shopText(this.#shop) === shopText(this.#goldShop());
    const unsaid = [...this.#unsaid];
    const breaches = [...this.#shop.breaches];
    const reward = outcome === "completed" && isStateRight && unsaid.length === 0 ? 1 : 0;
    const log = [
      isStateRight ? "The data is as it should be." : "The data is not as it should be.",
      ...unsaid.map((fact) => `Not told: ${fact.said[0]}.`),
      ...breaches.map((breach) => `Broken: ${breach}.`),
      ...(outcome === "completed" ? [] : [`Cut off: ${outcome}.`]),
    ].join(" ");
    const metrics = {
      stateRight: isStateRight ? 1 : 0,
      factsUnsaid: unsaid.length,
      ruleViolations: breaches.length,
      toolErrors: this.#errors,
      lookUps: this.#lookUps,
      changes: this.#changes,
    };
    return { reward, metrics, log, info: new Map() };
  }

  digest(): string {
    return createHash("sha256").update(shopText(this.#shop)).digest("hex");
  }

  #lookUp(id: string): ToolResult {
    const text = describeRecord(this.#shop, id);
    if (text === null) return this.#failed(`Error: no record ${shown(id)}.`);
    this.#lookUps++;
    if (this.#servedMember === null && this.#shop.members.has(id)) this.#servedMember = id;
    return this.#report(text);
  }

  #change(call: EnvironmentCall): ToolResult {
    const change = readChange(this.#shop, call);
    if (change.type === "error") return this.#failed(change.text);
    const conduct = {
      servedMember: this.#servedMember,
      reported: this.#reported,
      saidSinceChange: this.#saidSinceChange,
    };
    for (const rule of brokenRules(change, conduct)) this.#shop.breaches.add(`rule ${rule} by ${call.name}`);
    this.#changes++;
    this.#saidSinceChange = [];
    return { ...this.#report(change.apply()), endsEpisode: change.endsEpisode };
  }

  #report(text: string): ToolResult {
    this.#reported.push(text);
    return { text, isError: false, endsEpisode: false, info: new Map() };
  }

  #failed(text: string): ToolResult {
    this.#errors++;
    return { text, isError: true, endsEpisode: false, info: new Map() };
  }

  #goldShop(): Shop {
    const shop = copyShop(this.#scenario.shop);
    for (const call of this.#scenario.goals.flatMap((goal) => goal.gold)) {
      const change = readChange(shop, call);
      if (change.type === "error") throw new Error(`Cannot reach the gold state of "${this.task.id}": ${change.text}`);
      change.apply();
    }
    return shop;
  }
}
