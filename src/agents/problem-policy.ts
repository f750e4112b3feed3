// What is done about each kind of problem. A frozen value handed to `decideAction`; problems are counted whatever it says.

import { type ActionProblemCode, ConfigurationError } from "../core/index.ts";

/**
 * - `observe`: nothing is carried out; the policy reads what was wrong, and the episode continues.
 * - `words`: what was said beside the call goes to the user, the call is forgotten.
 * - `first`: the first call is carried out, the others are forgotten.
 * - `forward`: the call goes to the environment as it is.
 * - `end`: the episode ends and is graded. `abort`: it ends and is not graded.
 */
export type ProblemDisposition = "observe" | "words" | "first" | "forward" | "end" | "abort";

export type ProblemPolicy = Readonly<Record<ActionProblemCode, ProblemDisposition>>;

/**
 * A call that came out is carried out even where other text of the action is a problem; the policy decides when none did.
 *
 * - `not-an-object` and `several-calls` behave as τ-bench and its trainers do, so that numbers compare.
 * - `schema-violation`: "observe" means that the environment or the loop answers, whichever reports argument errors.
 * - `unknown-tool`: "forward" needs a renderer that lets unknown calls through; without one it is observed.
 * - `repaired`: the call that repair mode made out of a near-miss is carried out; "end" and "abort" are the alternatives.
 * - `no-call`: "words" is ordinary speech and then not counted as a problem.
 */
export const defaultProblemPolicy: ProblemPolicy = Object.freeze({
  "not-json": "observe",
  "not-an-object": "words",
  "unknown-tool": "observe",
  "schema-violation": "observe",
  "several-calls": "first",
  "unterminated-call": "observe",
  "spoofed-marker": "observe",
  repaired: "forward",
  "cut-off": "observe",
  "no-call": "words",
});

const general: readonly ProblemDisposition[] = ["observe", "words", "end", "abort"];

/** The default policy with changes. Throws a `ConfigurationError` for a code or a disposition that does not fit. */
export function createProblemPolicy(changes: Partial<ProblemPolicy> = {}): ProblemPolicy {
  for (const [code, disposition] of Object.entries(changes)) {
    if (!Object.hasOwn(defaultProblemPolicy, code)) {
      const known = Object.keys(defaultProblemPolicy).join(", ");
      throw new ConfigurationError(`Cannot set a policy for problem "${code}": there is none; problems are ${known}.`);
    }
    const allowed = dispositionsFor(code as ActionProblemCode);
    if (!allowed.includes(disposition)) {
      throw new ConfigurationError(
        `Cannot handle problem "${code}" with "${disposition}": use one of ${allowed.join(", ")}.`,
      );
    }
  }
  return Object.freeze({ ...defaultProblemPolicy, ...changes });
}

function dispositionsFor(code: ActionProblemCode): readonly ProblemDisposition[] {
  if (code === "repaired") return ["forward", "end", "abort"];
  if (code === "several-calls") return ["first", ...general];
  if (code === "schema-violation" || code === "unknown-tool") return ["forward", ...general];
  return general;
}
