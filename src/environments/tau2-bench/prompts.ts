// The prompts of models: the agent, the simulated user, and the judge. Upstream's texts are read
// from the user's files; this file combines them with policy, scenario and task.

import { pythonRepr, pythonStr } from "../../python-semantics/index.ts";
import type { JsonValue } from "../../python-semantics/json/index.ts";
import type { Requestor, Tau2Message } from "./messages.ts";
import type { Tau2Task } from "./tasks.ts";

/** Texts from upstream's code. `prepare` extracts them from a checkout. */
export type Tau2Prompts = {
  /** Instruction for an agent that talks with a user. */
  readonly agent: string;
  /** Instruction for an agent that is told the solution. */
  readonly goldAgent: string;
  /**
   * Instruction for an agent without a user; `{stop_function_name}` is a placeholder for the tool
   * with which it ends.
   */
  readonly soloAgent: string;
  /** System message of the judge, white space included. */
  readonly judge: string;
};

/** Reads the texts by name; a string result names the fault of the file. */
export function readTau2Prompts(value: JsonValue): Tau2Prompts | string {
  if (!(value instanceof Map)) return "it is not an object of strings";
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

/** System message of an agent that is told the reference solution; `null` if the task has none. */
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

/** True if a task works without a user: no user has spoken so far, and the task says what to do. */
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

/** Name of the tool that an agent without a user calls when it is done. */
export const soloStopTool = "done";

/** System message of an agent without a user. */
export function soloAgentPrompt(instruction: string, policy: string, task: Tau2Task): string {
  const told = instruction.replaceAll("{stop_function_name}", soloStopTool);
  return `${agentPrompt(told, policy)}\n${section("ticket", task.ticket ?? "None")}`;
}

/** Indents all lines except blank ones, like Python's `textwrap.indent`. */
function indent(content: string): string {
  return content.replace(/^(?=.*\S)/gm, "\t");
}

/** The user's knowledge and wishes, as text. */
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

/**
 * System message of a user simulated by a model. Guidelines may have a placeholder for a persona,
 * which stays empty.
 */
export function userPrompt(guidelines: string, scenario: string): string {
  return `${guidelines.replaceAll("<PERSONA_GUIDELINES>", "")}\n\n${section("scenario", scenario)}`.trim();
}

/**
 * The messages that one side has seen: its own, the other side's utterances, and the results of its
 * own calls.
 */
export function visibleTo(side: Requestor, messages: readonly Tau2Message[]): Tau2Message[] {
  return messages.filter((message) => {
    if (message.role === "system") return false;
    if (message.role === "tool") return message.requestor === side;
    return message.role === side || message.toolCalls === null;
  });
}

/** The judge's request, with the conversation and the assertions about it. */
export function judgeRequest(messages: readonly Tau2Message[], assertions: readonly string[]): string {
  const margin = " ".repeat(8);
  const lines = messages.map(({ role, content }) => `${role}: ${content ?? "None"}`);
  const parts = ["conversation:", lines.join("\n"), "", "expectedOutcomes:", pythonRepr([...assertions]), ""];
  return `\n${parts.map((part) => margin + part).join("\n")}`;
}
