// What the tools that change reservations have in common.

import type { JsonObject, JsonValue } from "../../../python-semantics/json/index.ts";
import { pythonLess, pythonSubtract } from "../../../python-semantics/index.ts";
import { asKey, attributeError, field, objectField, textField } from "../fields.ts";
import type { World } from "../world.ts";

export type FoundReservation = {
  readonly id: string;
  /** For reading only; `world.edit` gives the one to change. */
  readonly record: JsonObject;
};

/** The reservation; `null` when there is none. */
export function findReservation(world: World, reservationId: JsonValue): FoundReservation | null {
  const id = asKey(reservationId);
  const record = id === null ? undefined : world.read("reservations", id);
  return id === null || record === undefined ? null : { id, record };
}

/** A method of the user, for reading only; `null` when the user has none of that id. */
export function paymentMethodOf(world: World, userId: string, methodId: JsonValue): JsonObject | null {
  const id = asKey(methodId);
  const method = id === null ? undefined : objectField(world.read("users", userId)!, "payment_methods").get(id);
  return method instanceof Map ? method : null;
}

/** Why a method cannot pay for a change of a reservation, in the tool's words; `null` when it can. */
export function refusePayment(
  world: World,
  reservation: FoundReservation,
  { methodId, price }: { readonly methodId: JsonValue; readonly price: JsonValue },
): string | null {
  const method = paymentMethodOf(world, textField(reservation.record, "user_id"), methodId);
  if (method === null) return "Error: payment method not found";
  const source = field(method, "source");
  if (source === "certificate") return "Error: certificate cannot be used to update reservation";
  const isShort = source === "gift_card" && pythonLess(field(method, "amount"), price);
  return isShort ? "Error: gift card balance is not enough" : null;
}

/** Takes an amount from a gift card, unrounded; other methods are not charged. A negative amount gives. */
export function chargeGiftCard(
  world: World,
  userId: string,
  charge: { readonly methodId: JsonValue; readonly amount: JsonValue },
): void {
  const method = paymentMethodOf(world, userId, charge.methodId);
  if (method === null || field(method, "source") !== "gift_card") return;
  const methods = objectField(world.edit("users", userId), "payment_methods");
  const card = objectField(methods, charge.methodId as string);
  card.set("amount", pythonSubtract(field(card, "amount"), charge.amount, "-="));
}

/** `payment_history.append` or `.extend`; the history is whatever was given when the reservation was booked. */
export function addToHistory(
  reservation: JsonObject,
  entries: readonly JsonObject[],
  method: "append" | "extend",
): void {
  const history = field(reservation, "payment_history");
  if (!Array.isArray(history)) throw attributeError(history, method);
  history.push(...entries);
}

/** An entry of `payment_history`. */
export function historyEntry(methodId: JsonValue, amount: JsonValue): JsonObject {
  return new Map([
    ["payment_id", methodId],
    ["amount", amount],
  ]);
}
