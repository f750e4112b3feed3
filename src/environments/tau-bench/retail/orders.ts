// What the tools that change orders have in common: finding the order in the right status, its owner's payment methods,
// and money on gift cards.

import { JsonFloat, type JsonObject, type JsonValue } from "../../../python-semantics/json/index.ts";
import { pythonAdd, pythonRound, pythonSubtract } from "../../../python-semantics/index.ts";
import { asKey, field, objectField, textField } from "../fields.ts";
import type { World } from "../world.ts";

export type FoundOrder = {
  readonly id: string;
  /** For reading only; `world.edit` gives the one to change. */
  readonly record: JsonObject;
};

/** The order, or the error text of the tool. */
export function orderInStatus(
  world: World,
  orderId: JsonValue,
  wanted: { readonly status: string; readonly otherwise: string },
): FoundOrder | string {
  const id = asKey(orderId);
  const record = id === null ? undefined : world.read("orders", id);
  if (id === null || record === undefined) return "Error: order not found";
  return field(record, "status") === wanted.status ? { id, record } : wanted.otherwise;
}

/** The order's owner's method of that id, for reading only; `null` when the owner has none. */
export function paymentMethodOf(world: World, order: FoundOrder, methodId: JsonValue): JsonObject | null {
  const methods = objectField(world.read("users", textField(order.record, "user_id"))!, "payment_methods");
  const id = asKey(methodId);
  const method = id === null ? undefined : methods.get(id);
  return method instanceof Map ? method : null;
}

/** Whether the reference takes the id for a gift card's: the name is in it, anywhere. */
export function isGiftCardId(methodId: string): boolean {
  return methodId.includes("gift_card");
}

/**
 * Adds to or takes from the balance of the owner's gift card, and rounds it to cents: a balance that was an int becomes a
 * float with the first float amount. A card that is not the owner's is a KeyError.
 */
export function changeBalance(
  world: World,
  order: FoundOrder,
  { methodId, add, take }: { readonly methodId: string; readonly add?: JsonValue; readonly take?: JsonValue },
): void {
  const user = world.edit("users", textField(order.record, "user_id"));
  const card = objectField(objectField(user, "payment_methods"), methodId);
  let balance = field(card, "balance");
  if (add !== undefined) balance = pythonAdd(balance, add, "+=");
  if (take !== undefined) balance = pythonSubtract(balance, take, "-=");
  card.set("balance", isNumber(balance) ? pythonRound(balance, 2) : balance);
}

function isNumber(value: JsonValue): value is number | bigint | JsonFloat {
  return typeof value === "number" || typeof value === "bigint" || value instanceof JsonFloat;
}

/** An entry of `payment_history`. */
export function historyEntry(type: "payment" | "refund", amount: JsonValue, methodId: JsonValue): JsonObject {
  return new Map<string, JsonValue>([
    ["transaction_type", type],
    ["amount", amount],
    ["payment_method_id", methodId],
  ]);
}
