// The library's expressions as Jinja's: groups and tests unwrapped (`correct-tokens.ts`), `~` binding closer than `+`,
// comparisons chained, names of constants read.

import { JsonFloat } from "../../../python-semantics/json/index.ts";
import type { ArithmeticOperator } from "../operations/arithmetic.ts";
import { templateText } from "../values/traced-text.ts";
import { groupName, negatedTestPrefix, testPrefix, tupleName } from "./correct-tokens.ts";
import type { LibraryBinary, LibraryCall, LibraryFilter, LibraryIdentifier, LibraryNode } from "./library-nodes.ts";
import type { ArgumentNodes, CompareOperator, Expression, FilterNode } from "./nodes.ts";
import { syntaxError } from "./syntax-error.ts";

const constants: ReadonlyMap<string, boolean | null> = new Map([
  ["true", true],
  ["True", true],
  ["false", false],
  ["False", false],
  ["none", null],
  ["None", null],
]);

const additive = ["+", "-", "~"];
const comparing = ["==", "!=", "<", "<=", ">", ">=", "in", "not in"];

export function lowerExpression(node: LibraryNode): Expression {
  switch (node.type) {
    case "StringLiteral":
      return { type: "constant", value: templateText(node.value) };
    case "IntegerLiteral":
      return { type: "constant", value: node.value };
    case "FloatLiteral":
      return { type: "constant", value: new JsonFloat(node.value) };
    case "Identifier":
      return lowerName(node.value);
    case "ArrayLiteral":
      return { type: "list", items: node.value.map(lowerExpression) };
    case "TupleLiteral":
      return { type: "tuple", items: node.value.map(lowerExpression) };
    case "ObjectLiteral": {
      const entries = Array.from(node.value, ([key, value]) => ({
        key: lowerExpression(key),
        value: lowerExpression(value),
      }));
      return { type: "dict", entries };
    }
    case "MemberExpression":
      return lowerMember(node);
    case "CallExpression":
      return lowerCall(node);
    case "FilterExpression":
      return lowerFilter(node);
    case "UnaryExpression":
      return lowerUnary(node.operator.value, lowerExpression(node.argument));
    case "BinaryExpression":
      return lowerBinary(node);
    case "Ternary":
      return {
        type: "conditional",
        test: lowerExpression(node.condition),
        whenTrue: lowerExpression(node.trueExpr),
        whenFalse: lowerExpression(node.falseExpr),
      };
    case "SelectExpression":
      return {
        type: "conditional",
        test: lowerExpression(node.test),
        whenTrue: lowerExpression(node.lhs),
        whenFalse: null,
      };
    default:
      throw syntaxError(`a ${node.type} stands where a value is wanted`);
  }
}

/** The arguments of a call, a filter or a test. */
export function lowerArguments(nodes: readonly LibraryNode[]): ArgumentNodes {
  const positional: Expression[] = [];
  const named: { name: string; value: Expression }[] = [];
  let spread: Expression | null = null;
  let namedSpread: Expression | null = null;
  for (const node of nodes) {
    if (node.type === "KeywordArgumentExpression") {
      named.push({ name: node.key.value, value: lowerExpression(node.value) });
    } else if (node.type === "SpreadExpression") spread = lowerExpression(node.argument);
    else if (node.type === "KeywordSpreadExpression") namedSpread = lowerExpression(node.argument);
    else positional.push(lowerExpression(node));
  }
  return { positional, named, spread, namedSpread };
}

export function lowerFilterName(filter: LibraryIdentifier | LibraryCall): FilterNode {
  if (filter.type === "Identifier") return { name: filter.value, args: lowerArguments([]) };
  // Put together, a filter and what only values take parse as a filter of another kind.
  const isCall = filter.type === "CallExpression" && filter.callee.type === "Identifier";
  if (!isCall) throw syntaxError("a filter or test is followed by what only values take");
  return { name: filter.callee.value, args: lowerArguments(filter.args) };
}

/** Words of the language that the library takes for names where they are out of place. */
const reserved = ["and", "or", "not", "in", "is", "if", "else"];

function lowerName(name: string): Expression {
  if (reserved.includes(name)) throw syntaxError(`"${name}" stands where a value is wanted`);
  const constant = constants.get(name);
  return constant === undefined ? { type: "name", name } : { type: "constant", value: constant };
}

function lowerMember(node: LibraryNode & { readonly type: "MemberExpression" }): Expression {
  const object = lowerExpression(node.object);
  const { property } = node;
  if (property.type === "SliceExpression") {
    const [start, stop, step] = [property.start, property.stop, property.step].map((bound) =>
      bound === undefined ? null : lowerExpression(bound),
    );
    return { type: "slice", object, start: start ?? null, stop: stop ?? null, step: step ?? null };
  }
  if (node.computed) return { type: "item", object, key: lowerExpression(property) };
  if (property.type === "Identifier") return { type: "attribute", object, name: property.value };
  return { type: "item", object, key: lowerExpression(property) };
}

function lowerCall(node: LibraryCall): Expression {
  const name = node.callee.type === "Identifier" ? node.callee.value : null;
  if (name === groupName || name === tupleName) {
    const { positional, named, spread, namedSpread } = lowerArguments(node.args);
    if (named.length > 0 || spread !== null || namedSpread !== null) throw syntaxError("a group holds arguments");
    const isGroup = name === groupName && positional.length === 1;
    return isGroup ? positional[0]! : { type: "tuple", items: positional };
  }
  return { type: "call", callee: lowerExpression(node.callee), args: lowerArguments(node.args) };
}

function lowerFilter(node: LibraryFilter): Expression {
  const operand = lowerExpression(node.operand);
  const filter = lowerFilterName(node.filter);
  if (!filter.name.startsWith(testPrefix)) return { type: "filter", operand, filter };
  const isNegated = filter.name.startsWith(negatedTestPrefix);
  const name = filter.name.slice((isNegated ? negatedTestPrefix : testPrefix).length);
  return { type: "test", operand, name, isNegated, args: filter.args };
}

function lowerUnary(operator: string, operand: Expression): Expression {
  if (operator === "not") return { type: "not", operand };
  return { type: "sign", operator: operator === "-" ? "-" : "+", operand };
}

function lowerBinary(node: LibraryBinary): Expression {
  const operator = node.operator.value;
  if (additive.includes(operator)) return lowerSum(chainOf(node, additive));
  if (comparing.includes(operator)) return lowerComparison(chainOf(node, comparing));
  const [left, right] = [lowerExpression(node.left), lowerExpression(node.right)];
  if (operator === "and" || operator === "or") return { type: "logic", operator, left, right };
  return { type: "arithmetic", operator: operator as ArithmeticOperator, left, right };
}

type Link = { readonly operator: string; readonly operand: Expression };

/** A left-leaning tree of one level of operators as a list; the first link has none. */
function chainOf(node: LibraryNode, operators: readonly string[]): Link[] {
  const links: Link[] = [];
  let first = node;
  while (first.type === "BinaryExpression" && operators.includes(first.operator.value)) {
    links.push({ operator: first.operator.value, operand: lowerExpression(first.right) });
    first = first.left;
  }
  return [{ operator: "", operand: lowerExpression(first) }, ...links.reverse()];
}

/** Sums of concatenations: the library lets `+`, `-` and `~` bind alike. */
function lowerSum(chain: readonly Link[]): Expression {
  const terms: { operator: string; parts: Expression[] }[] = [];
  for (const { operator, operand } of chain) {
    if (operator === "~") terms.at(-1)!.parts.push(operand);
    else terms.push({ operator, parts: [operand] });
  }
  const values = terms.map(({ operator, parts }) => {
    const value: Expression = parts.length === 1 ? parts[0]! : { type: "concat", parts };
    return { operator, value };
  });
  return values.slice(1).reduce<Expression>(
    (left, { operator, value }) => ({
      type: "arithmetic",
      operator: operator === "-" ? "-" : "+",
      left,
      right: value,
    }),
    values[0]!.value,
  );
}

function lowerComparison(chain: readonly Link[]): Expression {
  const [first, ...rest] = chain;
  return {
    type: "compare",
    first: first!.operand,
    rest: rest.map(({ operator, operand }) => ({ operator: operator as CompareOperator, operand })),
  };
}
