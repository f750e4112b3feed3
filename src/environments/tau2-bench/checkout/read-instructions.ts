// The sentences that upstream's agents and its judge are told, out of the sources where they stand. How they are put together with
// policy and task is written in `prompts.ts`.

import type { SyntaxNode } from "@lezer/common";

import { pythonStrip } from "../../../python-semantics/index.ts";
import { childrenOf, problemAt, type PythonSource, textOf } from "../../checkout/python-source.ts";
import { readText } from "../../checkout/read-literal.ts";
import { findBinding, readAssignment, readScope } from "../../checkout/read-scope.ts";
import type { Tau2Prompts } from "../prompts.ts";

/** Throws a `ConfigurationError` that names file and line for a text that is not simply written. */
export function readInstructions(agent: PythonSource, judge: PythonSource): Tau2Prompts {
  const instruction = (name: string): string => {
    const { value } = findBinding(agent, readScope(agent, agent.top), name, "assignment");
    return readStripped(agent, value);
  };
  return {
    agent: instruction("AGENT_INSTRUCTION"),
    goldAgent: instruction("AGENT_GT_INSTRUCTION"),
    soloAgent: instruction("AGENT_SOLO_INSTRUCTION"),
    judge: readJudge(judge),
  };
}

/** A text, or `<text>.strip()`. */
function readStripped(source: PythonSource, node: SyntaxNode): string {
  if (node.name !== "CallExpression") return readText(source, node);
  const [callee, list] = childrenOf(node);
  const [text, dot, method] = callee?.name === "MemberExpression" ? childrenOf(callee) : [];
  const isStrip = dot?.name === "." && method !== undefined && textOf(source, method) === "strip";
  if (text === undefined || !isStrip || list === undefined || childrenOf(list).length !== 2) {
    throw problemAt(source, node, "this is neither text nor text without the white space around it");
  }
  return pythonStrip(readText(source, text));
}

/** The variable `system_prompt` of the method that asks the judge about a conversation. */
function readJudge(source: PythonSource): string {
  const scope = readScope(source, source.top);
  const { node } = findBinding(source, scope, "NLAssertionsEvaluator", "class");
  const method = findBinding(source, readScope(source, node), "evaluate_nl_assertions", "function").node;
  const found: SyntaxNode[] = [];
  const cursor = method.cursor();
  do {
    if (cursor.name !== "AssignStatement" && cursor.name !== "UpdateStatement") continue;
    const [target] = childrenOf(cursor.node);
    if (target !== undefined && textOf(source, target) === "system_prompt") found.push(cursor.node);
  } while (cursor.next() && cursor.from < method.to);
  const [first, second] = found;
  if (first === undefined) throw problemAt(source, method, 'the method has no variable "system_prompt"');
  if (second !== undefined) throw problemAt(source, second, '"system_prompt" is written a second time');
  const [assigned] = (first.name === "AssignStatement" ? readAssignment(source, first) : null) ?? [];
  if (assigned?.[1].type !== "assignment") throw problemAt(source, first, '"system_prompt" is not simply assigned');
  return readText(source, assigned[1].value);
}
