// The tree of a template, in the terms of Jinja's own: what the compiler reads. Data.

import type { BinaryOperator, OrderOperator, PythonValue } from "../../python-semantics/index.ts";

export type CompareOperator = "==" | "!=" | OrderOperator | "in" | "not in";

export type ArgumentNodes = {
  readonly positional: readonly Expression[];
  readonly named: readonly { readonly name: string; readonly value: Expression }[];
  /** `*items` */
  readonly spread: Expression | null;
  /** `**entries` */
  readonly namedSpread: Expression | null;
};

export type FilterNode = { readonly name: string; readonly args: ArgumentNodes };

export type Expression =
  | { readonly type: "constant"; readonly value: PythonValue }
  | { readonly type: "name"; readonly name: string }
  | { readonly type: "attribute"; readonly object: Expression; readonly name: string }
  | { readonly type: "item"; readonly object: Expression; readonly key: Expression }
  | {
      readonly type: "slice";
      readonly object: Expression;
      readonly start: Expression | null;
      readonly stop: Expression | null;
      readonly step: Expression | null;
    }
  | { readonly type: "call"; readonly callee: Expression; readonly args: ArgumentNodes }
  | { readonly type: "filter"; readonly operand: Expression; readonly filter: FilterNode }
  | {
      readonly type: "test";
      readonly operand: Expression;
      readonly name: string;
      readonly isNegated: boolean;
      readonly args: ArgumentNodes;
    }
  | { readonly type: "list" | "tuple"; readonly items: readonly Expression[] }
  | { readonly type: "dict"; readonly entries: readonly { readonly key: Expression; readonly value: Expression }[] }
  | { readonly type: "not"; readonly operand: Expression }
  | { readonly type: "sign"; readonly operator: "+" | "-"; readonly operand: Expression }
  | {
      readonly type: "arithmetic";
      readonly operator: BinaryOperator;
      readonly left: Expression;
      readonly right: Expression;
    }
  | { readonly type: "logic"; readonly operator: "and" | "or"; readonly left: Expression; readonly right: Expression }
  | { readonly type: "concat"; readonly parts: readonly Expression[] }
  | {
      readonly type: "compare";
      readonly first: Expression;
      /** `a < b < c` compares twice. */
      readonly rest: readonly { readonly operator: CompareOperator; readonly operand: Expression }[];
    }
  | {
      readonly type: "conditional";
      readonly test: Expression;
      readonly whenTrue: Expression;
      readonly whenFalse: Expression | null;
    };

/** What can be assigned to. */
export type Target =
  | { readonly type: "name"; readonly name: string }
  | { readonly type: "namespace"; readonly name: string; readonly attribute: string }
  | { readonly type: "tuple"; readonly items: readonly Target[] };

export type Parameter = { readonly name: string; readonly default: Expression | null };

export type Statement =
  /** Also what stands between the tags, as a constant. */
  | { readonly type: "output"; readonly expression: Expression }
  | {
      readonly type: "if";
      readonly test: Expression;
      readonly body: readonly Statement[];
      readonly otherwise: readonly Statement[];
    }
  | ForStatement
  | { readonly type: "set"; readonly target: Target; readonly value: Expression }
  | {
      readonly type: "set-block";
      readonly target: Target;
      readonly filters: readonly FilterNode[];
      readonly body: readonly Statement[];
    }
  | MacroStatement
  | CallStatement
  | { readonly type: "filter-block"; readonly filters: readonly FilterNode[]; readonly body: readonly Statement[] }
  | {
      readonly type: "with";
      readonly targets: readonly Target[];
      readonly values: readonly Expression[];
      readonly body: readonly Statement[];
    }
  | { readonly type: "break" | "continue" };

export type ForStatement = {
  readonly type: "for";
  readonly target: Target;
  readonly iterable: Expression;
  readonly test: Expression | null;
  readonly body: readonly Statement[];
  readonly otherwise: readonly Statement[];
  readonly isRecursive: boolean;
};

export type MacroStatement = {
  readonly type: "macro";
  readonly name: string;
  readonly parameters: readonly Parameter[];
  readonly body: readonly Statement[];
};

/** `{% call(parameters) callee(args) %}`; `{% generation %}` is one whose callee is `null`. */
export type CallStatement = {
  readonly type: "call-block";
  readonly call: { readonly callee: Expression; readonly args: ArgumentNodes } | null;
  readonly parameters: readonly Parameter[];
  readonly body: readonly Statement[];
};
