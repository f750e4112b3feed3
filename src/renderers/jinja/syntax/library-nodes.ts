// The nodes of the library's tree, as far as we read them. Its package exports the parser but not these types.

type Operator = { readonly value: string };

export type LibraryNode =
  | { readonly type: "StringLiteral"; readonly value: string }
  | { readonly type: "IntegerLiteral" | "FloatLiteral"; readonly value: number }
  | LibraryIdentifier
  | { readonly type: "ArrayLiteral" | "TupleLiteral"; readonly value: readonly LibraryNode[] }
  | { readonly type: "ObjectLiteral"; readonly value: ReadonlyMap<LibraryNode, LibraryNode> }
  | {
      readonly type: "MemberExpression";
      readonly object: LibraryNode;
      readonly property: LibraryNode;
      readonly computed: boolean;
    }
  | LibrarySlice
  | LibraryCall
  | { readonly type: "KeywordArgumentExpression"; readonly key: LibraryIdentifier; readonly value: LibraryNode }
  | { readonly type: "SpreadExpression" | "KeywordSpreadExpression"; readonly argument: LibraryNode }
  | LibraryFilter
  | { readonly type: "UnaryExpression"; readonly operator: Operator; readonly argument: LibraryNode }
  | LibraryBinary
  | {
      readonly type: "Ternary";
      readonly condition: LibraryNode;
      readonly trueExpr: LibraryNode;
      readonly falseExpr: LibraryNode;
    }
  | { readonly type: "SelectExpression"; readonly lhs: LibraryNode; readonly test: LibraryNode }
  | LibraryStatement;

export type LibraryIdentifier = { readonly type: "Identifier"; readonly value: string };
export type LibraryCall = {
  readonly type: "CallExpression";
  readonly callee: LibraryNode;
  readonly args: readonly LibraryNode[];
};
export type LibraryFilter = {
  readonly type: "FilterExpression";
  readonly operand: LibraryNode;
  readonly filter: LibraryIdentifier | LibraryCall;
};
export type LibraryBinary = {
  readonly type: "BinaryExpression";
  readonly operator: Operator;
  readonly left: LibraryNode;
  readonly right: LibraryNode;
};
export type LibrarySlice = {
  readonly type: "SliceExpression";
  readonly start: LibraryNode | undefined;
  readonly stop: LibraryNode | undefined;
  readonly step: LibraryNode | undefined;
};

export type LibraryStatement =
  | { readonly type: "Comment" | "Break" | "Continue" }
  | {
      readonly type: "If";
      readonly test: LibraryNode;
      readonly body: readonly LibraryNode[];
      readonly alternate: readonly LibraryNode[];
    }
  | LibraryFor
  | {
      readonly type: "Set";
      readonly assignee: LibraryNode;
      readonly value: LibraryNode | null;
      readonly body: readonly LibraryNode[];
    }
  | {
      readonly type: "Macro";
      readonly name: LibraryIdentifier;
      readonly args: readonly LibraryNode[];
      readonly body: readonly LibraryNode[];
    }
  | LibraryCallStatement
  | {
      readonly type: "FilterStatement";
      readonly filter: LibraryIdentifier | LibraryCall;
      readonly body: readonly LibraryNode[];
    };

export type LibraryFor = {
  readonly type: "For";
  readonly loopvar: LibraryNode;
  readonly iterable: LibraryNode;
  readonly body: readonly LibraryNode[];
  readonly defaultBlock: readonly LibraryNode[];
};
export type LibraryCallStatement = {
  readonly type: "CallStatement";
  readonly call: LibraryCall;
  readonly callerArgs: readonly LibraryNode[] | null;
  readonly body: readonly LibraryNode[];
};
