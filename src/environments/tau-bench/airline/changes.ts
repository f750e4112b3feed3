// The tools of the airline that change something: reservations, and the payment methods of users. What the agent claims about
// bags, membership, ends of the journey and dates of birth is stored unchecked; seats are never taken from a flight. All of it
// as the reference has it.

import {
  pythonAdd,
  pythonEquals,
  PythonError,
  pythonLess,
  pythonMultiply,
  pythonNegate,
  pythonStr,
  pythonSubtract,
  pythonTypeName,
  stringRepr,
} from "../../../python-semantics/index.ts";
import { cloneJson, type JsonObject, type JsonValue } from "../../../python-semantics/json/index.ts";
import { findRecord, type FoundRecord } from "../common/common-tools.ts";
import {
  attributeError,
  entryAt,
  field,
  fieldAt,
  iterate,
  lengthOf,
  listField,
  objectField,
  subscript,
  textField,
} from "../../tables/index.ts";
import { defineTool, type TauTool } from "../tool.ts";
import type { World } from "../world.ts";

/** A fourth booking overwrites the third. */
const reservationIds = ["HATHAT", "HATHAU", "HATHAV"] as const;

const bookingParameters = [
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

const bookReservation = defineTool({
  name: "book_reservation",
  parameters: bookingParameters,
  run: (world, args) => {
    const userId = findRecord(world, "users", args.user_id)?.id;
    if (userId === undefined) return "Error: user not found";
    const flights = cloneJson(args.flights);
    let total: JsonValue = 0;
    for (const flight of iterate(flights)) {
      const priced = priceFlight(world, flight, args);
      if (typeof priced === "string") return priced;
      total = addFare(total, priced, args.passengers);
    }
    if (args.insurance === "yes") total = pythonAdd(total, pythonMultiply(30, lengthOf(args.passengers)), "+=");
    total = pythonAdd(total, bagFee(args.nonfree_baggages), "+=");
    const refused = refusePayments(world, userId, args.payment_methods, total);
    if (refused !== null) return refused;
    pay(world, userId, args.payment_methods);
    const id = reservationIds.find((candidate) => world.read("reservations", candidate) === undefined) ?? "HATHAV";
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

/** Looks at each payment alone: the same card named twice may be charged more than it holds. */
function refusePayments(world: World, userId: string, payments: JsonValue, total: JsonValue): string | null {
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
  const paid = sumOf(payments, "amount");
  if (pythonEquals(paid, total)) return null;
  return `Error: payment amount does not add up, total price is ${pythonStr(total)}, but paid ${pythonStr(paid)}`;
}

/** `sum(item[key] for item in items)`. */
function sumOf(items: JsonValue, key: string): JsonValue {
  return iterate(items).reduce((sum, item) => pythonAdd(sum, subscript(item, key)), 0);
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
      chargeGiftCard(world, userId, methodId, subscript(payment, "amount"));
    }
  }
}

function reservationOf(
  id: string,
  booked: Readonly<Record<(typeof bookingParameters)[number], JsonValue>>,
): JsonObject {
  const fields = bookingParameters.flatMap((parameter): (readonly [string, JsonValue])[] =>
    parameter === "payment_methods"
      ? [
          ["payment_history", booked.payment_methods],
          ["created_at", "2024-05-15T15:00:00"],
        ]
      : [[parameter, booked[parameter]]],
  );
  return new Map([["reservation_id", id], ...fields]);
}

type ReservationTool<Parameter extends string> = {
  readonly name: string;
  readonly parameters: readonly Parameter[];
  /** Gives the error text of the tool, or changes the reservation, which is then the answer. */
  change(this: void, world: World, found: FoundRecord, args: Readonly<Record<Parameter, JsonValue>>): string | null;
};

/** A tool on one reservation. A cancelled one stays usable. */
function reservationTool<const Parameter extends string>({
  name,
  parameters,
  change,
}: ReservationTool<Parameter>): TauTool {
  return defineTool({
    name,
    parameters: ["reservation_id", ...parameters] as readonly ("reservation_id" | Parameter)[],
    run: (world, args) => {
      const found = findRecord(world, "reservations", args.reservation_id);
      if (found === null) return "Error: reservation not found";
      return change(world, found, args) ?? world.json("reservations", found.id);
    },
  });
}

/** Notes a refund for every entry of the history, of a second cancelling too; no card gets its money back. */
const cancelReservation = reservationTool({
  name: "cancel_reservation",
  parameters: [],
  change: (world, found) => {
    const refunds = iterate(field(found.record, "payment_history")).map((payment) =>
      historyEntry(subscript(payment, "payment_id"), pythonNegate(subscript(payment, "amount"))),
    );
    const edited = world.edit("reservations", found.id);
    addToHistory(edited, refunds, "extend");
    edited.set("status", "cancelled");
    return null;
  },
});

/** More bags cost money, fewer give none back. */
const updateReservationBaggages = reservationTool({
  name: "update_reservation_baggages",
  parameters: ["total_baggages", "nonfree_baggages", "payment_id"],
  change: (world, found, { total_baggages, nonfree_baggages, payment_id }) => {
    const more = pythonSubtract(nonfree_baggages, field(found.record, "nonfree_baggages"));
    // `max(0, more)` is the int 0 unless more is greater, so 0.0 and NaN cost the int 0.
    const price = pythonMultiply(50, pythonLess(0, more) ? more : 0);
    const refused = refusePayment(world, found, payment_id, price);
    if (refused !== null) return refused;
    const edited = world.edit("reservations", found.id);
    edited.set("total_baggages", total_baggages);
    edited.set("nonfree_baggages", nonfree_baggages);
    chargeGiftCard(world, textField(edited, "user_id"), payment_id, price);
    if (!pythonEquals(price, 0)) addToHistory(edited, [historyEntry(payment_id, price)], "append");
    return null;
  },
});

/** Other passengers, as many as before; anything that has a length is stored. */
const updateReservationPassengers = reservationTool({
  name: "update_reservation_passengers",
  parameters: ["passengers"],
  change: (world, found, { passengers }) => {
    if (lengthOf(passengers) !== lengthOf(field(found.record, "passengers"))) {
      return "Error: number of passengers does not match";
    }
    world.edit("reservations", found.id).set("passengers", passengers);
    return null;
  },
});

/**
 * Other flights. The cabin is used for prices and never stored, so the next change compares with the old one; origin,
 * destination and kind of journey stay as well.
 */
const updateReservationFlights = reservationTool({
  name: "update_reservation_flights",
  parameters: ["cabin", "flights", "payment_id"],
  change: (world, found, { cabin, flights: named, payment_id }) => {
    const passengers = field(found.record, "passengers");
    const flights = cloneJson(named);
    let price: JsonValue = 0;
    for (const flight of iterate(flights)) {
      const own = ownFlight(found.record, flight, cabin);
      const priced = own === null ? priceFlight(world, flight, { cabin, passengers }) : withOwnPrice(flight, own);
      if (typeof priced === "string") return priced;
      price = addFare(price, priced, passengers);
    }
    const before = sumOf(field(found.record, "flights"), "price");
    price = pythonSubtract(price, pythonMultiply(before, lengthOf(passengers)), "-=");
    const refused = refusePayment(world, found, payment_id, price);
    if (refused !== null) return refused;
    const edited = world.edit("reservations", found.id);
    chargeGiftCard(world, textField(edited, "user_id"), payment_id, price);
    edited.set("flights", flights);
    if (!pythonEquals(price, 0)) addToHistory(edited, [historyEntry(payment_id, price)], "append");
    return null;
  },
});

/** The reservation's own flight of that number and day, in the cabin it has now: it keeps its price, unchecked. */
function ownFlight(reservation: JsonObject, flight: JsonValue, cabin: JsonValue): JsonValue {
  const own = iterate(field(reservation, "flights")).find(
    (candidate) =>
      pythonEquals(subscript(candidate, "flight_number"), subscript(flight, "flight_number")) &&
      pythonEquals(subscript(candidate, "date"), subscript(flight, "date")) &&
      pythonEquals(cabin, field(reservation, "cabin")),
  );
  return own ?? null;
}

function withOwnPrice(flight: JsonValue, own: JsonValue): JsonObject {
  const priced = flight as JsonObject;
  for (const key of ["price", "origin", "destination"]) priced.set(key, subscript(own, key));
  return priced;
}

const certificateIds = ["certificate_3221322", "certificate_3221323", "certificate_3221324"];

/**
 * Gives a user a certificate of any amount, whatever its type. A fourth one is answered with None, which breaks the step
 * of the reference; a certificate that was spent frees its id.
 */
const sendCertificate = defineTool({
  name: "send_certificate",
  parameters: ["user_id", "amount"],
  run: (world, { user_id, amount }) => {
    const user = findRecord(world, "users", user_id);
    if (user === null) return "Error: user not found";
    const id = certificateIds.find((candidate) => !objectField(user.record, "payment_methods").has(candidate));
    if (id === undefined) return null;
    const certificate = new Map<string, JsonValue>([
      ["source", "certificate"],
      ["amount", amount],
      ["id", id],
    ]);
    objectField(world.edit("users", user.id), "payment_methods").set(id, certificate);
    return `Certificate ${id} added to user ${user.id} with amount ${pythonStr(amount)}.`;
  },
});

export const changes = [
  bookReservation,
  cancelReservation,
  updateReservationBaggages,
  updateReservationPassengers,
  updateReservationFlights,
  sendCertificate,
];

type Pricing = {
  readonly cabin: JsonValue;
  /** Only their number matters, and it is read only where it is needed. */
  readonly passengers: JsonValue;
};

/** Checks one flight and writes its price and ends onto it; the error text of the tool otherwise. */
function priceFlight(world: World, flight: JsonValue, { cabin, passengers }: Pricing): string | JsonObject {
  const number = subscript(flight, "flight_number");
  const known = entryAt(world.base.table("flights"), number);
  if (known === null) return `Error: flight ${pythonStr(number)} not found`;
  const date = subscript(flight, "date");
  const onDay = entryAt(objectField(known, "dates"), date);
  if (onDay === null) return `Error: flight ${pythonStr(number)} not found on date ${pythonStr(date)}`;
  if (field(onDay, "status") !== "available") {
    return `Error: flight ${pythonStr(number)} not available on date ${pythonStr(date)}`;
  }
  if (pythonLess(fieldAt(objectField(onDay, "available_seats"), cabin), lengthOf(passengers))) {
    return `Error: not enough seats on flight ${pythonStr(number)}`;
  }
  const priced = flight as JsonObject;
  priced.set("price", fieldAt(objectField(onDay, "prices"), cabin));
  priced.set("origin", field(known, "origin"));
  priced.set("destination", field(known, "destination"));
  return priced;
}

/** `total += flight["price"] * len(passengers)`. */
function addFare(total: JsonValue, flight: JsonObject, passengers: JsonValue): JsonValue {
  return pythonAdd(total, pythonMultiply(field(flight, "price"), lengthOf(passengers)), "+=");
}

/** A method of the user, for reading only; `null` when the user has none of that id. */
function paymentMethodOf(world: World, userId: string, methodId: JsonValue): JsonObject | null {
  return entryAt(objectField(world.read("users", userId)!, "payment_methods"), methodId);
}

/** Why a method cannot pay for a change of a reservation, as the tool's message; `null` when it can. */
function refusePayment(world: World, found: FoundRecord, methodId: JsonValue, price: JsonValue): string | null {
  const method = paymentMethodOf(world, textField(found.record, "user_id"), methodId);
  if (method === null) return "Error: payment method not found";
  const source = field(method, "source");
  if (source === "certificate") return "Error: certificate cannot be used to update reservation";
  const isShort = source === "gift_card" && pythonLess(field(method, "amount"), price);
  return isShort ? "Error: gift card balance is not enough" : null;
}

/** Takes an amount from a gift card, unrounded; other methods are not charged. A negative amount gives. */
function chargeGiftCard(world: World, userId: string, methodId: JsonValue, amount: JsonValue): void {
  const method = paymentMethodOf(world, userId, methodId);
  if (method === null || field(method, "source") !== "gift_card") return;
  const methods = objectField(world.edit("users", userId), "payment_methods");
  const card = objectField(methods, methodId as string);
  card.set("amount", pythonSubtract(field(card, "amount"), amount, "-="));
}

/** `payment_history.append` or `.extend`; the history is whatever was given when the reservation was booked. */
function addToHistory(reservation: JsonObject, entries: readonly JsonObject[], method: "append" | "extend"): void {
  const history = field(reservation, "payment_history");
  if (!Array.isArray(history)) throw attributeError(history, method);
  history.push(...entries);
}

/** An entry of `payment_history`. */
function historyEntry(methodId: JsonValue, amount: JsonValue): JsonObject {
  return new Map([
    ["payment_id", methodId],
    ["amount", amount],
  ]);
}
