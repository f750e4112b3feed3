// What `act` and `react` share: tools described in the system message instead of the chat template, actions read from text,
// results given back in the user's place. They differ in their instruction alone.

import type { AgentStrategy, Decision } from "../core/index.ts";
import { dumpJson } from "../python-semantics/json/index.ts";
import { judgeAction } from "./judge-action.ts";
import { createProblemPolicy, type ProblemPolicy } from "./problem-policy.ts";
import { readTextAction, respondName, respondTool } from "./text-action.ts";

export type TextStrategyOptions = {
  /** Changes to the default problem policy; arguments that are no object are observed here unless it says otherwise. */
  readonly problemPolicy?: Partial<ProblemPolicy>;
  /** How actions are written, in other words than ours. Put directly behind the tools, so it begins with a line break. */
  readonly instruction?: string;
};

/** Throws a `ConfigurationError` when the problem policy does not fit. */
export function createTextStrategy(
  name: string,
  { instruction, problemPolicy }: TextStrategyOptions & { readonly instruction: string },
): AgentStrategy {
  const policy = createProblemPolicy({ "not-an-object": "observe", ...problemPolicy });
  // There is nobody to forward speech to that has no words.
  const speechPolicy: ProblemPolicy =
    policy["schema-violation"] === "forward" ? { ...policy, "schema-violation": "observe" } : policy;
  return {
    name,
    open: ({ guidelines, tools, firstUtterance }) => ({
      messages: [
        {
          role: "system",
          content: systemText(
            guidelines,
            tools.map(({ definition }) => definition),
            instruction,
          ),
        },
        { role: "user", content: firstUtterance },
      ],
      tools: [],
    }),
    decide: (action, { tools, argumentErrors, turn }): Decision => {
      const read = readTextAction(action, turn);
      const isSpeech = read.toolCalls[0]?.name === respondName;
      const decision = judgeAction(read, {
        tools: [respondTool, ...tools],
        argumentErrors: isSpeech ? "loop" : argumentErrors,
        policy: isSpeech ? speechPolicy : policy,
      });
      if (!isSpeech || decision.type !== "call") return decision;
      const words = decision.arguments.get("content");
      return { type: "say", words: typeof words === "string" ? words : "", problems: decision.problems };
    },
    observe: (decision, observation) => ({
      role: "user",
      content: decision.type === "say" ? observation : `API output: ${observation}`,
    }),
  };
}

/** As the τ-bench reference lays it out; the JSON is Python's, byte for byte. */
function systemText(guidelines: string, definitions: Parameters<typeof dumpJson>[0][], instruction: string): string {
  return `${guidelines}\n#Available tools\n${dumpJson(definitions, { ensureAscii: true })}${instruction}`;
}
