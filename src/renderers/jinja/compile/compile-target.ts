// Assignment: to names, to attributes of a namespace, to several at once.

import type { Target } from "../nodes.ts";
import { isIterable, itemsOf } from "../values/iteration.ts";
import { pythonError, typeError, valueError } from "../values/raise.ts";
import { typeNameOf } from "../values/type-name.ts";
import { Namespace, type Value } from "../values/value.ts";
import type { Frame } from "./run.ts";
import { compileName, ownSlot, type Scope } from "./scope.ts";

export type Assign = (frame: Frame, value: Value) => void;

export function compileTarget(target: Target, scope: Scope): Assign {
  switch (target.type) {
    case "name": {
      const slot = ownSlot(scope, target.name);
      return (frame, value) => {
        frame.slots[slot] = value;
      };
    }
    case "namespace": {
      const read = compileName(scope, target.name);
      const { attribute } = target;
      return (frame, value) => {
        const namespace = read(frame);
        if (!(namespace instanceof Namespace)) throw notANamespace();
        namespace.attributes.set(attribute, value);
      };
    }
    case "tuple": {
      const items = target.items.map((item) => compileTarget(item, scope));
      return (frame, value) => unpack(items, frame, value);
    }
    default:
      return target satisfies never;
  }
}

/** Asks, before the value is worked out, whether every namespace that a target names is one. */
export function compileTargetCheck(target: Target, scope: Scope): (frame: Frame) => void {
  if (target.type === "name") return () => {};
  if (target.type === "tuple") {
    const checks = target.items.map((item) => compileTargetCheck(item, scope));
    return (frame) => {
      for (const check of checks) check(frame);
    };
  }
  const read = compileName(scope, target.name);
  return (frame) => {
    if (!(read(frame) instanceof Namespace)) throw notANamespace();
  };
}

function unpack(items: readonly Assign[], frame: Frame, value: Value): void {
  if (!isIterable(value)) throw typeError(`a ${typeNameOf(value)} cannot be unpacked`);
  const values = itemsOf(value);
  if (values.length !== items.length)
    throw valueError(`${values.length} values are unpacked into ${items.length} names`);
  items.forEach((assign, index) => assign(frame, values[index]!));
}

function notANamespace(): Error {
  return pythonError("TemplateRuntimeError", "an attribute is assigned to something that is no namespace");
}
