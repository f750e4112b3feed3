// The strategy that acts without thinking aloud: each turn is one action, written as JSON.

import type { AgentStrategy } from "../core/index.ts";
import { createTextStrategy, type TextStrategyOptions } from "./text-strategy.ts";

const instruction = `

# How to act
You are the agent. Help the user with the tools above, and keep to the policy at the beginning.

Every message of yours is one action and nothing else, in this form:
Action:
{"name": "<name of a tool>", "arguments": {<the arguments of the tool, as JSON>}}

To say something to the user, use the action "respond":
Action:
{"name": "respond", "arguments": {"content": "<what you say>"}}

What stands behind "Action:" is read by a program: it must be one valid JSON object. Take arguments from the conversation or from the output of a tool; never invent them. The output of a tool comes back to you as the next message, beginning with "API output:".
`;

/** Throws a `ConfigurationError` when the problem policy does not fit. */
export function createAct(options: TextStrategyOptions = {}): AgentStrategy {
  return createTextStrategy("act", { instruction, ...options });
}
