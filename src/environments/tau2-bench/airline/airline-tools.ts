// The tools of the airline. Arguments of any type arrive: lists of objects become models when all of them are objects, and are kept
// as they are otherwise, as the reference does. What is checked, and in which order, is the reference's.

import {
  compareCodePoints,
  pythonAdd,
  pythonEquals,
  pythonLess,
  pythonMultiply,
  pythonNegate,
  pythonStr,
  pythonSubtract,
} from "../../../python-semantics/index.ts";
import { JsonFloat, type JsonObject, type JsonValue } from "../../../python-semantics/json/index.ts";
import {
  airports,
  asKey,
  attributeError,
  field,
  fieldAt,
  iterate,
  lengthOf,
  listField,
  objectField,
  textField,
} from "../../tables/index.ts";
import { calculateTool, transferTool, defineTool, defineToolkit, ModelResult } from "../toolkit.ts";
import type { Database } from "../database.ts";
import { numberOf, requireId, valueError } from "../python.ts";
import type { Model } from "../schema.ts";
import {
  certificate,
  directFlight,
  flightInfo,
  passenger,
  payment,
  reservation,
  reservationFlight,
} from "./airline-models.ts";

const now = "2024-05-15T15:00:00";

const findUser = (database: Database, id: JsonValue): string =>
  requireId(database, "users", id, `User ${pythonStr(id)} not found`);

const findReservation = (database: Database, id: JsonValue): string =>
  requireId(database, "reservations", id, `Reservation ${pythonStr(id)} not found`);

const findFlight = (database: Database, number: JsonValue): JsonObject =>
  database.read("flights", requireId(database, "flights", number, `Flight ${pythonStr(number)} not found`))!;

/** A flight on a date. */
function findInstance(database: Database, number: JsonValue, date: JsonValue): JsonObject {
  const dates = objectField(findFlight(database, number), "dates");
  const key = asKey(date);
  const instance = key === null ? undefined : dates.get(key);
  if (instance instanceof Map) return instance;
  throw valueError(`Flight ${pythonStr(number)} not found on date ${pythonStr(date)}`);
}

/** Objects as models, when all of them are objects; anything else as it is. */
function asModels(value: JsonValue, model: Model): JsonValue {
  const items = iterate(value);
  return items.every((item) => item instanceof Map) ? items.map((item) => model.read(item, model.name)) : value;
}

/** `item.name` of a model, or of what was given in place of one. */
function attribute(item: JsonValue, name: string): JsonValue {
  if (item instanceof Map) return field(item, name);
  throw attributeError(item, name);
}

/** Whether what `asModels` gave are models: attributes of plain objects do not exist. */
function requireModels(items: readonly JsonValue[], name: string): void {
  const isMixed = items.some((item) => !(item instanceof Map));
  const first = items[0];
  if (isMixed && first instanceof Map) throw attributeError(first, name);
}

type Segment = {
  readonly number: string;
  readonly date: string;
  readonly price: JsonValue;
  readonly record: JsonObject;
};

/** A segment that has room for so many, and what it costs each. */
function priceSegment(
  database: Database,
  info: { readonly number: JsonValue; readonly date: JsonValue },
  { cabin, seats }: { readonly cabin: JsonValue; readonly seats: number },
): Segment {
  const flight = findFlight(database, info.number);
  const instance = findInstance(database, info.number, info.date);
  const [number, date] = [info.number as string, info.date as string];
  if (instance.get("status") !== "available") throw valueError(`Flight ${number} not available on date ${date}`);
  const available = fieldAt(objectField(instance, "available_seats"), cabin);
  if (pythonLess(available, seats)) throw valueError(`Not enough seats on flight ${number}`);
  const price = fieldAt(objectField(instance, "prices"), cabin);
  const record = reservationFlight.make({
    flight_number: number,
    origin: flight.get("origin")!,
    destination: flight.get("destination")!,
    date,
    price,
  });
  return { number, date, price, record };
}

const bookReservation = defineTool("write", {
  name: "book_reservation",
  parameters: [
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
  ],
  run: ({ agent }, args) => {
    const flights = asModels(args.flights, flightInfo);
    const passengers = asModels(args.passengers, passenger);
    const payments = asModels(args.payment_methods, payment);
    const userId = findUser(agent, args.user_id);
    const id = ["HATHAT", "HATHAU", "HATHAV"].find((free) => agent.read("reservations", free) === undefined);
    if (id === undefined) throw valueError("Too many reservations");
    const record = reservation.make({
      reservation_id: id,
      user_id: userId,
      origin: args.origin,
      destination: args.destination,
      flight_type: args.flight_type,
      cabin: args.cabin,
      flights: [],
      passengers,
      payment_history: payments,
      created_at: now,
      total_baggages: args.total_baggages,
      nonfree_baggages: args.nonfree_baggages,
      insurance: args.insurance,
    });
    const seats = lengthOf(passengers);
    const infos = iterate(flights);
    requireModels(infos, "flight_number");
    let total: JsonValue = 0;
    const segments = infos.map((info) => {
      const wanted = { number: attribute(info, "flight_number"), date: attribute(info, "date") };
      const segment = priceSegment(agent, wanted, { cabin: args.cabin, seats });
      total = pythonAdd(total, pythonMultiply(segment.price, seats), "+=");
      return segment;
    });
    listField(record, "flights").push(...segments.map((segment) => segment.record));
    if (args.insurance === "yes") total = pythonAdd(total, pythonMultiply(30, seats), "+=");
    const bags = args.nonfree_baggages;
    // A text is repeated in Python, and then it is no summand.
    total = pythonAdd(total, typeof bags === "string" ? bags : pythonMultiply(50, bags), "+=");
    checkPayments(agent, userId, { payments: iterate(payments), total });
    deductPayments(agent, userId, iterate(payments));
    for (const { number, date } of segments) {
      const dates = objectField(agent.edit("flights", number), "dates");
      const available = objectField(objectField(dates, date), "available_seats");
      available.set(args.cabin as string, pythonSubtract(available.get(args.cabin as string)!, seats, "-="));
    }
    agent.put("reservations", id, record);
    listField(agent.edit("users", userId), "reservations").push(id);
    return new ModelResult(record);
  },
});

const holdsMoney = (method: JsonObject): boolean =>
  method.get("source") === "gift_card" || method.get("source") === "certificate";

function checkPayments(
  database: Database,
  userId: string,
  { payments, total }: { readonly payments: readonly JsonValue[]; readonly total: JsonValue },
): void {
  const methods = objectField(database.read("users", userId)!, "payment_methods");
  let paid: JsonValue = 0;
  for (const one of payments) {
    const id = textField(one as JsonObject, "payment_id");
    const method = methods.get(id);
    if (!(method instanceof Map)) throw valueError(`Payment method ${id} not found`);
    if (holdsMoney(method) && numberOf(method, "amount") < numberOf(one as JsonObject, "amount")) {
      throw valueError(`Not enough balance in payment method ${id}`);
    }
    paid = pythonAdd(paid, field(one as JsonObject, "amount"));
  }
  if (pythonEquals(paid, total)) return;
  throw valueError(`Payment amount does not add up, total price is ${pythonStr(total)}, but paid ${pythonStr(paid)}`);
}

/** Of gift cards the amount is taken; certificates are used up. */
function deductPayments(database: Database, userId: string, payments: readonly JsonValue[]): void {
  const methods = objectField(database.edit("users", userId), "payment_methods");
  for (const one of payments) {
    const id = textField(one as JsonObject, "payment_id");
    const method = objectField(methods, id);
    const amount = numberOf(one as JsonObject, "amount");
    if (method.get("source") === "gift_card") method.set("amount", new JsonFloat(numberOf(method, "amount") - amount));
    else if (method.get("source") === "certificate") methods.delete(id);
  }
}

/** Takes what a change costs from a payment method; `null`: it costs nothing. */
function payForUpdate(
  database: Database,
  userId: string,
  due: { readonly id: JsonValue; readonly total: JsonValue },
): JsonObject | null {
  const { id, total } = due;
  const key = asKey(id);
  const known = key === null ? undefined : objectField(database.read("users", userId)!, "payment_methods").get(key);
  if (!(known instanceof Map)) throw valueError("Payment method not found");
  if (known.get("source") === "certificate") throw valueError("Certificate cannot be used to update reservation");
  if (known.get("source") === "gift_card") {
    if (pythonLess(field(known, "amount"), total)) throw valueError("Gift card balance is not enough");
    const methods = objectField(database.edit("users", userId), "payment_methods");
    const method = objectField(methods, key!);
    method.set("amount", pythonSubtract(field(method, "amount"), total, "-="));
  }
  return pythonEquals(total, 0) ? null : payment.make({ payment_id: key!, amount: total });
}

const cancelReservation = defineTool("write", {
  name: "cancel_reservation",
  parameters: ["reservation_id"],
  run: ({ agent }, { reservation_id }) => {
    const record = agent.edit("reservations", findReservation(agent, reservation_id));
    const history = listField(record, "payment_history") as JsonObject[];
    const refunds = history.map((paid) =>
      payment.make({ payment_id: paid.get("payment_id")!, amount: pythonNegate(paid.get("amount")!) }),
    );
    history.push(...refunds);
    return new ModelResult(record.set("status", "cancelled"));
  },
});

const updateBaggages = defineTool("write", {
  name: "update_reservation_baggages",
  parameters: ["reservation_id", "total_baggages", "nonfree_baggages", "payment_id"],
  run: ({ agent }, { reservation_id, total_baggages, nonfree_baggages, payment_id }) => {
    const id = findReservation(agent, reservation_id);
    const known = agent.read("reservations", id)!;
    const userId = findUser(agent, known.get("user_id")!);
    const more = pythonSubtract(nonfree_baggages, known.get("nonfree_baggages")!);
    const total = pythonMultiply(50, pythonLess(0, more) ? more : 0);
    const paid = payForUpdate(agent, userId, { id: payment_id, total });
    const record = agent.edit("reservations", id);
    if (paid !== null) listField(record, "payment_history").push(paid);
    // As they are given: the reference does not validate assignments.
    record.set("total_baggages", total_baggages).set("nonfree_baggages", nonfree_baggages);
    return new ModelResult(record);
  },
});

const updateFlights = defineTool("write", {
  name: "update_reservation_flights",
  parameters: ["reservation_id", "cabin", "flights", "payment_id"],
  run: ({ agent }, { reservation_id, cabin, flights, payment_id }) => {
    const infos = iterate(asModels(flights, flightInfo));
    const id = findReservation(agent, reservation_id);
    const known = agent.read("reservations", id)!;
    const userId = findUser(agent, known.get("user_id")!);
    const existing = listField(known, "flights") as JsonObject[];
    const seats = lengthOf(known.get("passengers")!);
    const keepsCabin = pythonEquals(cabin, known.get("cabin")!);
    requireModels(infos, "flight_number");
    let total: JsonValue = 0;
    const segments = infos.map((info) => {
      const number = attribute(info, "flight_number");
      const date = attribute(info, "date");
      const isSame = (old: JsonObject): boolean =>
        pythonEquals(old.get("flight_number")!, number) && pythonEquals(old.get("date")!, date) && keepsCabin;
      const kept = existing.find(isSame);
      const record = kept ?? priceSegment(agent, { number, date }, { cabin, seats }).record;
      total = pythonAdd(total, pythonMultiply(record.get("price")!, seats), "+=");
      return record;
    });
    const before = existing.reduce<JsonValue>((sum, old) => pythonAdd(sum, old.get("price")!), 0);
    total = pythonSubtract(total, pythonMultiply(before, seats), "-=");
    const paid = payForUpdate(agent, userId, { id: payment_id, total });
    const record = agent.edit("reservations", id);
    if (paid !== null) listField(record, "payment_history").push(paid);
    record
      .set(
        "flights",
        segments.map((segment) => new Map(segment)),
      )
      .set("cabin", cabin);
    return new ModelResult(record);
  },
});

const updatePassengers = defineTool("write", {
  name: "update_reservation_passengers",
  parameters: ["reservation_id", "passengers"],
  run: ({ agent }, given) => {
    const passengers = asModels(given.passengers, passenger);
    const id = findReservation(agent, given.reservation_id);
    if (lengthOf(passengers) !== lengthOf(agent.read("reservations", id)!.get("passengers")!)) {
      throw valueError("Number of passengers does not match");
    }
    return new ModelResult(agent.edit("reservations", id).set("passengers", passengers));
  },
});

const sendCertificate = defineTool("write", {
  name: "send_certificate",
  parameters: ["user_id", "amount"],
  run: ({ agent }, { user_id, amount }) => {
    const userId = findUser(agent, user_id);
    const known = objectField(agent.read("users", userId)!, "payment_methods");
    const id = ["3221322", "3221323", "3221324"]
      .map((number) => `certificate_${number}`)
      .find((free) => !known.has(free));
    if (id === undefined) throw valueError("Too many certificates");
    const record = certificate.make({ source: "certificate", id, amount });
    objectField(agent.edit("users", userId), "payment_methods").set(id, record);
    return `Certificate ${id} added to user ${userId} with amount ${pythonStr(amount)}.`;
  },
});

type Search = {
  readonly date: JsonValue;
  readonly origin: JsonValue;
  readonly destination: JsonValue;
  readonly after: string | null;
};

/** Flights that can be booked on a date; `null` in place of a city: any. */
function searchFlights(database: Database, { date, origin, destination, after }: Search): JsonObject[] {
  const found: JsonObject[] = [];
  for (const [, flight] of database.records("flights")) {
    if (origin !== null && !pythonEquals(flight.get("origin")!, origin)) continue;
    if (destination !== null && !pythonEquals(flight.get("destination")!, destination)) continue;
    const key = asKey(date);
    const instance = key === null ? undefined : objectField(flight, "dates").get(key);
    if (!(instance instanceof Map) || instance.get("status") !== "available") continue;
    if (after !== null && compareCodePoints(textField(flight, "scheduled_departure_time_est"), after) < 0) continue;
    const shown = [
      "flight_number",
      "origin",
      "destination",
      "scheduled_departure_time_est",
      "scheduled_arrival_time_est",
    ];
    const parts = shown.map((name) => [name, flight.get(name)!] as const);
    found.push(
      directFlight.make({
        ...Object.fromEntries(parts),
        status: "available",
        available_seats: instance.get("available_seats")!,
        prices: instance.get("prices")!,
      }),
    );
  }
  return found;
}

const searchDirect = defineTool("read", {
  name: "search_direct_flight",
  parameters: ["origin", "destination", "date"],
  run: ({ agent }, args) => searchFlights(agent, { ...args, after: null }).map((flight) => new ModelResult(flight)),
});

const searchOneStop = defineTool("read", {
  name: "search_onestop_flight",
  parameters: ["origin", "destination", "date"],
  run: ({ agent }, { origin, destination, date }) =>
    searchFlights(agent, { date, origin, destination: null, after: null }).flatMap((first) => {
      const arrival = textField(first, "scheduled_arrival_time_est");
      // The month is fixed, and the day has no zero before it.
      const second = arrival.includes("+1") ? `2024-05-${Number((date as string).slice(-2)) + 1}` : date;
      first.set("date", date);
      const stop = first.get("destination")!;
      return searchFlights(agent, { date: second, origin: stop, destination, after: arrival }).map((flight) => [
        new ModelResult(first),
        new ModelResult(flight.set("date", second)),
      ]);
    }),
});

const listAirports = defineTool("read", {
  name: "list_all_airports",
  parameters: [],
  run: () =>
    airports.map(
      ([iata, city]) =>
        new ModelResult(
          new Map([
            ["iata", iata],
            ["city", city],
          ]),
        ),
    ),
});

export const airlineToolkit = defineToolkit("AirlineTools", [
  bookReservation,
  calculateTool,
  cancelReservation,
  defineTool("read", {
    name: "get_reservation_details",
    parameters: ["reservation_id"],
    run: ({ agent }, args) => new ModelResult(agent.read("reservations", findReservation(agent, args.reservation_id))!),
  }),
  defineTool("read", {
    name: "get_user_details",
    parameters: ["user_id"],
    run: ({ agent }, args) => new ModelResult(agent.read("users", findUser(agent, args.user_id))!),
  }),
  listAirports,
  searchDirect,
  searchOneStop,
  sendCertificate,
  transferTool,
  updateBaggages,
  updateFlights,
  updatePassengers,
  defineTool("read", {
    name: "get_flight_status",
    parameters: ["flight_number", "date"],
    run: ({ agent }, { flight_number, date }) => textField(findInstance(agent, flight_number, date), "status"),
  }),
]);
