// Booking. What the agent claims about bags, membership, ends of the journey and dates of birth is stored unchecked; seats
// are never taken from a flight. All of it as the reference has it.

import { cloneJson, type JsonObject, type JsonValue } from "../../../python-semantics/json/index.ts";
import {
  pythonAdd,
  PythonError,
  pythonEquals,
  pythonLess,
  pythonMultiply,
  pythonStr,
  pythonTypeName,
  stringRepr,
} from "../../../python-semantics/index.ts";
import { asKey, field, iterate, lengthOf, listField, objectField, subscript } from "../fields.ts";
import { defineTool } from "../tool.ts";
import type { World } from "../world.ts";
import { addFare, priceFlight } from "./price-flights.ts";
import { chargeGiftCard, paymentMethodOf } from "./reservations.ts";

/** A fourth booking overwrites the third. */
const ids = ["HATHAT", "HATHAU", "HATHAV"] as const;

const parameters = [
  "user_id",
  "origin",
  "destination",
  "flight_type",
  "cabin",
  "flights",
  "passengers",
  "payment_methods",
  "total_baggages",
  "nonfree_baggages",
  "insurance",
] as const;

export const bookReservation = defineTool({
  name: "book_reservation",
  parameters,
  run: (world, args) => {
    const userId = asKey(args.user_id);
    if (userId === null || world.read("users", userId) === undefined) return "Error: user not found";
    const flights = cloneJson(args.flights);
    let total: JsonValue = 0;
    for (const flight of iterate(flights)) {
      const priced = priceFlight(world, flight, args);
      if (typeof priced === "string") return priced;
      total = addFare(total, priced, args.passengers);
    }
    if (args.insurance === "yes") total = pythonAdd(total, pythonMultiply(30, lengthOf(args.passengers)), "+=");
    total = pythonAdd(total, bagFee(args.nonfree_baggages), "+=");
    const refused = refusePayments(world, userId, { payments: args.payment_methods, total });
    if (refused !== null) return refused;
    pay(world, userId, args.payment_methods);
    const id = ids.find((candidate) => world.read("reservations", candidate) === undefined) ?? "HATHAV";
    world.put("reservations", id, reservationOf(id, { ...args, flights }));
    listField(world.edit("users", userId), "reservations").push(id);
    return world.json("reservations", id);
  },
});

/** `50 * bags`; Python repeats a text or list fifty times, which then cannot be added to a price. */
function bagFee(bags: JsonValue): JsonValue {
  if (typeof bags === "string" || Array.isArray(bags)) {
    throw new PythonError("TypeError", `unsupported operand type(s) for +=: 'int' and '${pythonTypeName(bags)}'`);
  }
  return pythonMultiply(50, bags);
}

/** Looks at each payment alone: the same card named twice may be asked for more than it holds. */
function refusePayments(
  world: World,
  userId: string,
  { payments, total }: { readonly payments: JsonValue; readonly total: JsonValue },
): string | null {
  for (const payment of iterate(payments)) {
    const methodId = subscript(payment, "payment_id");
    const amount = subscript(payment, "amount");
    const method = paymentMethodOf(world, userId, methodId);
    if (method === null) return `Error: payment method ${pythonStr(methodId)} not found`;
    const isLimited = ["gift_card", "certificate"].includes(field(method, "source") as string);
    if (isLimited && pythonLess(field(method, "amount"), amount)) {
      return `Error: not enough balance in payment method ${pythonStr(methodId)}`;
    }
  }
  let paid: JsonValue = 0;
  for (const payment of iterate(payments)) paid = pythonAdd(paid, subscript(payment, "amount"));
  if (pythonEquals(paid, total)) return null;
  return `Error: payment amount does not add up, total price is ${pythonStr(total)}, but paid ${pythonStr(paid)}`;
}

/** A certificate is used up whatever it is worth. Named twice it is a KeyError, and what was charged before stays charged. */
function pay(world: World, userId: string, payments: JsonValue): void {
  for (const payment of iterate(payments)) {
    const methodId = subscript(payment, "payment_id") as string;
    const method = paymentMethodOf(world, userId, methodId);
    if (method === null) throw new PythonError("KeyError", stringRepr(methodId));
    if (field(method, "source") === "certificate") {
      objectField(world.edit("users", userId), "payment_methods").delete(methodId);
    } else {
      chargeGiftCard(world, userId, { methodId, amount: subscript(payment, "amount") });
    }
  }
}

function reservationOf(id: string, booked: Readonly<Record<(typeof parameters)[number], JsonValue>>): JsonObject {
  return new Map<string, JsonValue>([
    ["reservation_id", id],
    ["user_id", booked.user_id],
    ["origin", booked.origin],
    ["destination", booked.destination],
    ["flight_type", booked.flight_type],
    ["cabin", booked.cabin],
    ["flights", booked.flights],
    ["passengers", booked.passengers],
    ["payment_history", booked.payment_methods],
    ["created_at", "2024-05-15T15:00:00"],
    ["total_baggages", booked.total_baggages],
    ["nonfree_baggages", booked.nonfree_baggages],
    ["insurance", booked.insurance],
  ]);
}
