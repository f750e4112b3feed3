// A small loop for the tests of this folder: messages become the text of a prompt, a text agent
// answers, and environment and user continue. No tokens, no engine: the real loop is tested in
// `episodes/`.

import type { Environment, EnvironmentCall, LocalEnvironmentSource, Grade, Task } from "../../core/index.ts";
import { dumpJson, parseJson } from "../../python-semantics/json/index.ts";
import { agendaUser } from "../../users/index.ts";

export type PlayedLine = { readonly role: "member" | "desk" | "till"; readonly text: string };

export type Played = {
  readonly lines: readonly PlayedLine[];
  readonly grade: Grade;
  readonly prompt: string;
  readonly stop: "tool_ended" | "user_hung_up" | "max_turns";
  readonly digest: string;
};

/** Returns the text of the next action for the text of the prompt. */
export type TextAgent = (prompt: string) => string;

export async function play(
  source: LocalEnvironmentSource,
  task: Task,
  agent: TextAgent,
  options: { seed?: number; maxTurns?: number } = {},
): Promise<Played> {
  const { seed = 0, maxTurns = 30 } = options;
  const environment = source.open(task);
  const user = agendaUser().create(task, { seed });
  const lines: PlayedLine[] = [];
  let prompt = block("system", systemText(environment));
  const show = (role: "member" | "till", text: string): void => {
    lines.push({ role, text });
    prompt += block("user", role === "till" ? `<tool_response>\n${text}\n</tool_response>` : text);
  };
  const finish = (stop: Played["stop"]): Played => {
    const outcome = stop === "max_turns" ? "truncated" : "completed";
    const grade = environment.grade({ outcome });
    if (grade instanceof Promise) throw new Error("Cannot play: the bookshop grades at once.");
    return { lines, grade, prompt, stop, digest: environment.digest() };
  };

  show("member", (await user.open()).text);
  for (let turn = 0; turn < maxTurns; turn++) {
    const action = agent(`${prompt}<|im_start|>assistant\n`);
    lines.push({ role: "desk", text: action });
    prompt += block("assistant", action);
    const call = readAction(action);
    if (call === "bad") {
      show("till", "Error: write one tool call, as JSON.");
    } else if (call === null) {
      await environment.receiveUtterance(action);
      const line = await user.reply(action);
      if (line.type === "hang-up") {
        lines.push({ role: "member", text: line.text });
        return finish("user_hung_up");
      }
      show("member", line.text);
    } else {
      const result = await environment.call(call);
      if (result.endsEpisode) {
        lines.push({ role: "till", text: result.text });
        return finish("tool_ended");
      }
      show("till", result.text);
    }
  }
  return finish("max_turns");
}

/** A call, `null` for an utterance, "bad" for text that is neither. */
function readAction(action: string): EnvironmentCall | null | "bad" {
  if (!action.includes("<tool_call>")) return null;
  const calls = [...action.matchAll(/<tool_call>\n([\s\S]*?)\n<\/tool_call>/g)];
  if (calls.length !== 1) return "bad";
  try {
    const value = parseJson(calls[0]?.[1] ?? "");
    const name = value instanceof Map ? value.get("name") : undefined;
    const args = value instanceof Map ? value.get("arguments") : undefined;
    return typeof name === "string" && args instanceof Map ? { name, arguments: args } : "bad";
  } catch {
    return "bad";
  }
}

function systemText({ guidelines, tools }: Environment): string {
  const signatures = tools.map((tool) => dumpJson(tool.definition)).join("\n");
  return `${guidelines}\n\n# Tools\n\n<tools>\n${signatures}\n</tools>`;
}

function block(role: string, text: string): string {
  return `<|im_start|>${role}\n${text}<|im_end|>\n`;
}
