// What an arithmetic expression consists of once parsed. The alphabet is digits, `+ - * / ( ) .` and the blank, so besides
// numbers and operators only the accidents of that alphabet occur: the empty tuple, `...`, and calls such as `2(3)`.

export type UnaryOperator = "+" | "-";
export type BinaryOperator = "+" | "-" | "*" | "/" | "//" | "**";

export type ExpressionNode =
  | { readonly type: "int"; readonly value: bigint; readonly depth: number }
  | { readonly type: "float"; readonly value: number; readonly depth: number }
  | { readonly type: "empty-tuple"; readonly depth: number }
  | { readonly type: "ellipsis"; readonly depth: number }
  | {
      readonly type: "unary";
      readonly operator: UnaryOperator;
      readonly operand: ExpressionNode;
      readonly depth: number;
    }
  | {
      readonly type: "binary";
      readonly operator: BinaryOperator;
      readonly left: ExpressionNode;
      readonly right: ExpressionNode;
      readonly depth: number;
    }
  | {
      readonly type: "call";
      readonly callee: ExpressionNode;
      /** `null` for `f()`. */
      readonly argument: ExpressionNode | null;
      readonly unpacking: "" | "*" | "**";
      readonly depth: number;
    };
