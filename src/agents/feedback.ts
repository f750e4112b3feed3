// What a policy reads when its action was not carried out: short, naming the tool and the place, and what to do instead.
// Says nothing about the syntax of calls, which differs between model families and stands in the prompt.

import type { ActionProblem, Tool } from "../core/index.ts";

/** Names at most this many tools; longer lists would cost more context than they help. */
const shownTools = 40;

export function feedbackOn(problem: ActionProblem, tools: readonly Tool[]): string {
  const call = problem.toolName === null ? "the tool call" : `the call of "${problem.toolName}"`;
  switch (problem.code) {
    case "not-json":
    case "not-an-object":
    case "unterminated-call":
    case "spoofed-marker":
    case "repaired":
      return `Error: ${call} was not carried out. ${problem.detail} Repeat it in the format that the tools section shows.`;
    case "unknown-tool":
      return `Error: ${call} was not carried out. ${problem.detail} ${listTools(tools)}`;
    case "schema-violation":
      return `Error: ${call} was not carried out. ${problem.detail}`;
    case "several-calls":
      return `Error: nothing was carried out. ${problem.detail} Call one tool at a time.`;
    case "cut-off":
      return `Error: nothing was carried out and nobody read your message. ${problem.detail} Be shorter.`;
    case "no-call":
      return `Error: nothing was carried out and nobody read your message. ${problem.detail} ${listTools(tools)}`;
    default:
      return problem.code satisfies never;
  }
}

function listTools(tools: readonly Tool[]): string {
  if (tools.length === 0) return "There are no tools.";
  const names = tools.slice(0, shownTools).map((tool) => tool.name);
  return `The tools are ${names.join(", ")}${tools.length > shownTools ? ", ..." : ""}.`;
}
