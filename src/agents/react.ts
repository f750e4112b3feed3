// The strategy that thinks in words before each action (Yao et al. 2022). The thought stays in the history and is never
// heard by the user.

import type { AgentStrategy } from "../core/index.ts";
import { createTextStrategy, type TextStrategyOptions } from "./text-strategy.ts";

const instruction = `

# How to act
You are the agent. Help the user with the tools above, and keep to the policy at the beginning.

Every message of yours is one thought and one action, in this form:
Thought:
<one line: what you know, and what follows from it>
Action:
{"name": "<name of a tool>", "arguments": {<the arguments of the tool, as JSON>}}

To say something to the user, use the action "respond":
Thought:
<one line>
Action:
{"name": "respond", "arguments": {"content": "<what you say>"}}

Nobody but you reads the thought. What stands behind "Action:" is read by a program: it must be one valid JSON object. Take arguments from the conversation or from the output of a tool; never invent them. The output of a tool comes back to you as the next message, beginning with "API output:".
`;

/** Throws a `ConfigurationError` when the problem policy does not fit. */
export function createReact(options: TextStrategyOptions = {}): AgentStrategy {
  return createTextStrategy("react", { instruction, ...options });
}
