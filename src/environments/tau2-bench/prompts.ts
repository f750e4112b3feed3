// What models are told: the agent, the simulated user, and the judge. Upstream's sentences are read from the user's files; here is how
// they are put together with policy, scenario and task.

import { pythonRepr, pythonStr } from "../../python-semantics/index.ts";
import type { JsonValue } from "../../python-semantics/json/index.ts";
import type { Requestor, Tau2Message } from "./messages.ts";
import type { Tau2Task } from "./tasks.ts";

/** Sentences of upstream that stand in its code. `prepare` takes them out of a checkout. */
export type Tau2Prompts = {
  /** Of an agent that talks with a user. */
  readonly agent: string;
  /** Of one that is told the solution. */
  readonly goldAgent: string;
  /** Of one without a user; `{stop_function_name}` stands for the tool that it ends with. */
  readonly soloAgent: string;
  /** System message of the judge, white space included. */
  readonly judge: string;
};

/** Out of a file that has them by their names; a string says what is wrong with it. */
export function readTau2Prompts(value: JsonValue): Tau2Prompts | string {
  if (!(value instanceof Map)) return "it is no object of texts";
  const texts = { agent: "", goldAgent: "", soloAgent: "", judge: "" };
  for (const name of Object.keys(texts) as (keyof Tau2Prompts)[]) {
    const text = value.get(name);
    if (typeof text !== "string") return `it has no text "${name}"`;
    texts[name] = text;
  }
  return texts;
}

const section = (name: string, content: string): string => `<${name}>\n${content}\n</${name}>`;

/** The agent's system message. */
export function agentPrompt(instruction: string, policy: string): string {
  return `${section("instructions", instruction)}\n${section("policy", policy)}`;
}

/** System message of an agent that is told the reference solution; `null`: the task has none. */
export function goldAgentPrompt(instruction: string, policy: string, task: Tau2Task): string | null {
  const actions = task.criteria?.actions ?? [];
  if (actions.length === 0) return null;
  const steps = actions.map(({ requestor, name, arguments: given }, index) => {
    const call = `${name}(${Array.from(given, ([key, value]) => `${key}=${pythonStr(value)}`).join(", ")})`;
    const what = requestor === "user" ? "Instruct the user to perform" : "Perform";
    return `[Step ${index + 1}] ${what} the following action: ${call}.`;
  });
  return `${agentPrompt(instruction, policy)}\n${section("resolution_steps", steps.join("\n"))}`;
}

/** Whether a task can be played without a user: nothing was said so far, and it says what is to be done. */
export function isSoloTask({ record, history, ticket, criteria }: Tau2Task): boolean {
  const hasInitialState = record.get("initial_state") !== undefined && record.get("initial_state") !== null;
  if (hasInitialState) {
    return (
      history.every(({ role }) => role !== "user") &&
      history.every((one) => !("toolCalls" in one) || one.toolCalls !== null)
    );
  }
  return ticket !== null && (criteria?.actions ?? []).length > 0;
}

/** The name of the tool by which an agent without a user says that it is done. */
export const soloStopTool = "done";

/** System message of an agent without a user. */
export function soloAgentPrompt(instruction: string, policy: string, task: Tau2Task): string {
  const told = instruction.replaceAll("{stop_function_name}", soloStopTool);
  return `${agentPrompt(told, policy)}\n${section("ticket", task.ticket ?? "None")}`;
}

/** Lines of white space stay as they are, as Python's `textwrap.indent` leaves them. */
function indent(content: string): string {
  return content.replace(/^(?=.*\S)/gm, "\t");
}

/** What the user knows and wants, as text. */
export function scenarioText({ persona, instructions }: Tau2Task): string {
  const lines = persona === null ? [] : ["Persona:", indent(persona)];
  lines.push("Instructions:");
  if (typeof instructions === "string") return [...lines, indent(instructions)].join("\n");
  const { domain, reasonForCall, knownInfo, unknownInfo, taskInstructions } = instructions;
  const parts = [`Domain: ${domain}`, `Reason for call:\n${indent(reasonForCall)}`];
  if (knownInfo !== null) parts.push(`Known info:\n${indent(knownInfo)}`);
  if (unknownInfo !== null) parts.push(`Unknown info:\n${indent(unknownInfo)}`);
  parts.push(`Task instructions:\n${indent(taskInstructions)}`);
  return [...lines, indent(parts.join("\n"))].join("\n");
}

/** System message of a user simulated by a model. Guidelines may have a place for a persona, which texts leave empty. */
export function userPrompt(guidelines: string, scenario: string): string {
  return `${guidelines.replaceAll("<PERSONA_GUIDELINES>", "")}\n\n${section("scenario", scenario)}`.trim();
}

/** What one side has seen of a conversation: its own messages, what the other side said to it, and results of its own calls. */
export function visibleTo(side: Requestor, messages: readonly Tau2Message[]): Tau2Message[] {
  return messages.filter((message) => {
    if (message.role === "system") return false;
    if (message.role === "tool") return message.requestor === side;
    return message.role === side || message.toolCalls === null;
  });
}

/** What the judge is shown of a conversation, and of the assertions about it. */
export function judgeRequest(messages: readonly Tau2Message[], assertions: readonly string[]): string {
  const margin = " ".repeat(8);
  const lines = messages.map(({ role, content }) => `${role}: ${content ?? "None"}`);
  const parts = ["conversation:", lines.join("\n"), "", "expectedOutcomes:", pythonRepr([...assertions]), ""];
  return `\n${parts.map((part) => margin + part).join("\n")}`;
}
