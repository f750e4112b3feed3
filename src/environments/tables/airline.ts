// The airline's tools that change data, shared by both benchmarks, and its airports. The second
// benchmark rewrote the first one's tools over data models, so they differ in details, not in kind:
// `AirlineReference` has the differences. Searches and their answers have little in common, so each
// benchmark has its own. The agent's claims about bags, membership and dates of birth are stored
// unchecked.

import {
  pythonAdd,
  pythonEquals,
  type PythonError,
  pythonLess,
  pythonMultiply,
  pythonNegate,
  pythonStr,
  pythonSubtract,
} from "../../python-semantics/index.ts";
import type { JsonObject, JsonValue } from "../../python-semantics/json/index.ts";
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
} from "./fields.ts";
import { defineTableTool, findRecord, type FoundRecord, type TableTool } from "./table-tool.ts";
import type { Tables } from "./tables.ts";

/**
 * Code and city, in the order in which the references list them. A constant in their sources, not a
 * table.
 */
export const airports: readonly (readonly [iata: string, city: string])[] = [
  ["SFO", "San Francisco"],
  ["JFK", "New York"],
  ["LAX", "Los Angeles"],
  ["ORD", "Chicago"],
  ["DFW", "Dallas"],
  ["DEN", "Denver"],
  ["SEA", "Seattle"],
  ["ATL", "Atlanta"],
  ["MIA", "Miami"],
  ["BOS", "Boston"],
  ["PHX", "Phoenix"],
  ["IAH", "Houston"],
  ["LAS", "Las Vegas"],
  ["MCO", "Orlando"],
  ["EWR", "Newark"],
  ["CLT", "Charlotte"],
  ["MSP", "Minneapolis"],
  ["DTW", "Detroit"],
  ["PHL", "Philadelphia"],
  ["LGA", "LaGuardia"],
];

type Fields = Readonly<Record<string, JsonValue>>;

/** A flight with its price per passenger, its origin and its destination. */
export type Segment = {
  readonly number: JsonValue;
  readonly date: JsonValue;
  readonly price: JsonValue;
  readonly origin: JsonValue;
  readonly destination: JsonValue;
};

/** Differences between the references. */
export type AirlineReference = {
  /** The error of a refusal, given its sentence, which begins with a capital and has no full stop. */
  readonly refusal: (sentence: string) => PythonError;
  /** Sentence about a missing record. */
  readonly missing: (what: "User" | "Reservation", id: JsonValue) => string;
  /**
   * A list argument in the form that the tools process: of data models, or unchanged. Throws for a
   * value that is not accepted.
   */
  readonly readList: (kind: "flight" | "passenger" | "payment", value: JsonValue) => JsonValue;
  /** `item.name`, or `item["name"]`, of one item of a list argument. */
  readonly fieldOf: (items: readonly JsonValue[], item: JsonValue, name: string) => JsonValue;
  /** The given flight with its price, origin and destination, or the record that is stored instead. */
  readonly segment: (flight: JsonValue, segment: Segment) => JsonObject;
  /** The list of flights to store: the segments, or the given list that contains these flights. */
  readonly flights: (segments: JsonObject[], given: JsonValue) => JsonValue;
  /**
   * The stored form of a reservation, an entry of `payment_history` and a certificate. They throw
   * for invalid fields.
   */
  readonly reservation: (fields: Fields) => JsonObject;
  readonly payment: (fields: Fields) => JsonObject;
  readonly certificate: (fields: Fields) => JsonObject;
  /** The id of a fourth reservation. Throws if the reference has none. */
  readonly fourthReservation: () => string;
  /** The result of a fourth certificate. Throws if the reference refuses it. */
  readonly fourthCertificate: () => null;
  /** True if a booking takes its seats from the flights. */
  readonly takesSeats: boolean;
  /**
   * True if the cabin of changed flights is stored; otherwise the next change compares with the old
   * one.
   */
  readonly storesCabin: boolean;
};

const reservationIds = ["HATHAT", "HATHAU", "HATHAV"];
const certificateIds = ["certificate_3221322", "certificate_3221323", "certificate_3221324"];

/** The tools. They accept values of any type, so that all checks are the references' own. */
export function airlineChanges(reference: AirlineReference): readonly TableTool[] {
  const { refusal, fieldOf } = reference;

  const findUser = (tables: Tables, id: JsonValue): FoundRecord => {
    const user = findRecord(tables, "users", id);
    if (user === null) throw refusal(reference.missing("User", id));
    return user;
  };

  /** A tool on one reservation, which may be cancelled. Returns the reservation after the change. */
  const reservationTool = <const Parameter extends string, Read = null>(tool: {
    readonly name: string;
    readonly parameters: readonly Parameter[];
    /** Reads arguments before the reservation is looked up. */
    read?(this: void, args: Readonly<Record<Parameter, JsonValue>>): Read;
    change(
      this: void,
      tables: Tables,
      found: FoundRecord,
      args: Readonly<Record<Parameter, JsonValue>> & { readonly read: Read },
    ): void;
  }): TableTool =>
    defineTableTool({
      name: tool.name,
      parameters: ["reservation_id", ...tool.parameters] as readonly ("reservation_id" | Parameter)[],
      run: (tables, args) => {
        const read = tool.read?.(args) ?? (null as Read);
        const found = findRecord(tables, "reservations", args.reservation_id);
        if (found === null) throw refusal(reference.missing("Reservation", args.reservation_id));
        tool.change(tables, found, { ...args, read });
        return found;
      },
    });

  /** Checks one flight to be booked. `date` and `seats` are read only where they are needed. */
  const priceFlight = (
    tables: Tables,
    number: JsonValue,
    flight: { readonly date: () => JsonValue; readonly cabin: JsonValue; readonly seats: () => number },
  ): Segment => {
    const shown = pythonStr(number);
    const known = findRecord(tables, "flights", number)?.record;
    if (known === undefined) throw refusal(`Flight ${shown} not found`);
    const date = flight.date();
    const onDay = entryAt(objectField(known, "dates"), date);
    if (onDay === null) throw refusal(`Flight ${shown} not found on date ${pythonStr(date)}`);
    if (field(onDay, "status") !== "available") {
      throw refusal(`Flight ${shown} not available on date ${pythonStr(date)}`);
    }
    if (pythonLess(fieldAt(objectField(onDay, "available_seats"), flight.cabin), flight.seats())) {
      throw refusal(`Not enough seats on flight ${shown}`);
    }
    const price = fieldAt(objectField(onDay, "prices"), flight.cabin);
    return { number, date, price, origin: field(known, "origin"), destination: field(known, "destination") };
  };

  /** Checks each payment separately, so a card named twice may be charged more than its balance. */
  const checkPayments = (user: FoundRecord, payments: readonly JsonValue[], total: JsonValue): void => {
    for (const payment of payments) {
      const id = subscript(payment, "payment_id");
      const amount = subscript(payment, "amount");
      const method = entryAt(objectField(user.record, "payment_methods"), id);
      if (method === null) throw refusal(`Payment method ${pythonStr(id)} not found`);
      const isLimited = ["gift_card", "certificate"].includes(field(method, "source") as string);
      if (isLimited && pythonLess(field(method, "amount"), amount)) {
        throw refusal(`Not enough balance in payment method ${pythonStr(id)}`);
      }
    }
    const paid = sumOf(payments, "amount");
    if (pythonEquals(paid, total)) return;
    throw refusal(`Payment amount does not add up, total price is ${pythonStr(total)}, but paid ${pythonStr(paid)}`);
  };

  /**
   * Pays for a change with a method of the owner; returns the entries for the history, none if the
   * change is free.
   */
  const payForChange = (tables: Tables, user: FoundRecord, id: JsonValue, price: JsonValue): JsonObject[] => {
    const method = entryAt(objectField(user.record, "payment_methods"), id);
    if (method === null) throw refusal("Payment method not found");
    const source = field(method, "source");
    if (source === "certificate") throw refusal("Certificate cannot be used to update reservation");
    if (source === "gift_card" && pythonLess(field(method, "amount"), price)) {
      throw refusal("Gift card balance is not enough");
    }
    chargeGiftCard(tables, user.id, id as string, price);
    return pythonEquals(price, 0) ? [] : [reference.payment({ payment_id: id, amount: price })];
  };

  return [
    defineTableTool({
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
      run: (tables, { user_id, cabin, nonfree_baggages, insurance, ...args }) => {
        const flights = reference.readList("flight", args.flights);
        const passengers = reference.readList("passenger", args.passengers);
        const payments = reference.readList("payment", args.payment_methods);
        const user = findUser(tables, user_id);
        const id =
          reservationIds.find((free) => tables.read("reservations", free) === undefined) ??
          reference.fourthReservation();
        const record = reference.reservation({
          reservation_id: id,
          user_id: user.id,
          origin: args.origin,
          destination: args.destination,
          flight_type: args.flight_type,
          cabin,
          flights: [],
          passengers,
          payment_history: payments,
          created_at: "2024-05-15T15:00:00",
          total_baggages: args.total_baggages,
          nonfree_baggages,
          insurance,
        });
        const seats = (): number => lengthOf(passengers);
        const items = iterate(flights);
        let total: JsonValue = 0;
        const segments = items.map((item) => {
          const date = (): JsonValue => fieldOf(items, item, "date");
          const segment = priceFlight(tables, fieldOf(items, item, "flight_number"), { date, cabin, seats });
          total = pythonAdd(total, pythonMultiply(segment.price, seats()), "+=");
          return { ...segment, record: reference.segment(item, segment) };
        });
        if (insurance === "yes") total = pythonAdd(total, pythonMultiply(30, seats()), "+=");
        // Python repeats a string or list fifty times, and the result cannot be added to a price.
        const isRepeated = typeof nonfree_baggages === "string" || Array.isArray(nonfree_baggages);
        total = pythonAdd(total, isRepeated ? nonfree_baggages : pythonMultiply(50, nonfree_baggages), "+=");
        checkPayments(user, iterate(payments), total);
        pay(tables, user.id, iterate(payments));
        for (const { number, date } of reference.takesSeats ? segments : []) {
          const dates = objectField(tables.edit("flights", number as string), "dates");
          const available = objectField(objectField(dates, date as string), "available_seats");
          available.set(cabin as string, pythonSubtract(fieldAt(available, cabin), seats(), "-="));
        }
        const stored = segments.map((segment) => segment.record);
        tables.put("reservations", id, record.set("flights", reference.flights(stored, flights)));
        listField(tables.edit("users", user.id), "reservations").push(id);
        return { table: "reservations", id, record };
      },
    }),
    /**
     * Records a refund for every entry of the history, also at a second cancellation; no card is
     * credited.
     */
    reservationTool({
      name: "cancel_reservation",
      parameters: [],
      change: (tables, { id, record }) => {
        const refunds = iterate(field(record, "payment_history")).map((payment) =>
          reference.payment({
            payment_id: subscript(payment, "payment_id"),
            amount: pythonNegate(subscript(payment, "amount")),
          }),
        );
        const edited = tables.edit("reservations", id);
        addToHistory(edited, refunds, "extend");
        edited.set("status", "cancelled");
      },
    }),
    /** More bags cost money; fewer bags are not refunded. */
    reservationTool({
      name: "update_reservation_baggages",
      parameters: ["total_baggages", "nonfree_baggages", "payment_id"],
      change: (tables, { id, record }, { total_baggages, nonfree_baggages, payment_id }) => {
        const user = findUser(tables, field(record, "user_id"));
        const more = pythonSubtract(nonfree_baggages, field(record, "nonfree_baggages"));
        // `max(0, more)` is the int 0 unless `more` is greater, so 0.0 and NaN cost the int 0.
        const price = pythonMultiply(50, pythonLess(0, more) ? more : 0);
        const paid = payForChange(tables, user, payment_id, price);
        const edited = tables.edit("reservations", id);
        edited.set("total_baggages", total_baggages).set("nonfree_baggages", nonfree_baggages);
        addToHistory(edited, paid, "append");
      },
    }),
    /** Replaces the flights; origin, destination and flight type stay unchanged. */
    reservationTool({
      name: "update_reservation_flights",
      parameters: ["cabin", "flights", "payment_id"],
      read: ({ flights }) => reference.readList("flight", flights),
      change: (tables, { id, record }, { cabin, payment_id, read: flights }) => {
        const user = findUser(tables, field(record, "user_id"));
        const passengers = field(record, "passengers");
        const existing = iterate(field(record, "flights"));
        const keepsCabin = pythonEquals(cabin, field(record, "cabin"));
        const items = iterate(flights);
        let price: JsonValue = 0;
        const segments = items.map((item) => {
          const number = fieldOf(items, item, "flight_number");
          const date = (): JsonValue => fieldOf(items, item, "date");
          // The reservation's own flight with this number and date, in the current cabin, keeps its
          // price and is not checked.
          const own = existing.find(
            (one) =>
              pythonEquals(subscript(one, "flight_number"), number) &&
              pythonEquals(subscript(one, "date"), date()) &&
              keepsCabin,
          );
          const segment =
            own === undefined
              ? priceFlight(tables, number, { date, cabin, seats: () => lengthOf(passengers) })
              : ownSegment(own, { number, date: date() });
          price = pythonAdd(price, pythonMultiply(segment.price, lengthOf(passengers)), "+=");
          return reference.segment(item, segment);
        });
        const before = pythonMultiply(sumOf(existing, "price"), lengthOf(passengers));
        price = pythonSubtract(price, before, "-=");
        const paid = payForChange(tables, user, payment_id, price);
        const edited = tables.edit("reservations", id).set("flights", reference.flights(segments, flights));
        if (reference.storesCabin) edited.set("cabin", cabin);
        addToHistory(edited, paid, "append");
      },
    }),
    /** Replaces the passengers with the same number of other passengers. */
    reservationTool({
      name: "update_reservation_passengers",
      parameters: ["passengers"],
      read: ({ passengers }) => reference.readList("passenger", passengers),
      change: (tables, { id, record }, { read: passengers }) => {
        if (lengthOf(passengers) !== lengthOf(field(record, "passengers"))) {
          throw refusal("Number of passengers does not match");
        }
        tables.edit("reservations", id).set("passengers", passengers);
      },
    }),
    /** Gives a user a certificate of any amount; the id of a spent certificate is free again. */
    defineTableTool({
      name: "send_certificate",
      parameters: ["user_id", "amount"],
      run: (tables, { user_id, amount }) => {
        const user = findUser(tables, user_id);
        const methods = objectField(user.record, "payment_methods");
        const id = certificateIds.find((free) => !methods.has(free));
        if (id === undefined) return reference.fourthCertificate();
        const certificate = reference.certificate({ source: "certificate", amount, id });
        objectField(tables.edit("users", user.id), "payment_methods").set(id, certificate);
        return `Certificate ${id} added to user ${user.id} with amount ${pythonStr(amount)}.`;
      },
    }),
  ];
}

function ownSegment(own: JsonValue, key: Pick<Segment, "number" | "date">): Segment {
  const [price, origin, destination] = ["price", "origin", "destination"].map((name) => subscript(own, name));
  return { ...key, price: price!, origin: origin!, destination: destination! };
}

/** `sum(item[key] for item in items)`. */
function sumOf(items: readonly JsonValue[], key: string): JsonValue {
  return items.reduce((sum, item) => pythonAdd(sum, subscript(item, key)), 0);
}

/**
 * Charges the payments. A certificate is used up regardless of its amount. Naming it twice raises a
 * KeyError, and earlier charges remain. Cards are charged elsewhere.
 */
function pay(tables: Tables, userId: string, payments: readonly JsonValue[]): void {
  for (const payment of payments) {
    const id = subscript(payment, "payment_id");
    const methods = objectField(tables.edit("users", userId), "payment_methods");
    if (field(fieldAt(methods, id) as JsonObject, "source") === "certificate") methods.delete(id as string);
    else chargeGiftCard(tables, userId, id as string, subscript(payment, "amount"));
  }
}

/**
 * Takes an amount from a gift card, unrounded; other methods are charged elsewhere. A negative
 * amount credits the card.
 */
function chargeGiftCard(tables: Tables, userId: string, methodId: string, amount: JsonValue): void {
  const methods = objectField(tables.edit("users", userId), "payment_methods");
  const method = objectField(methods, methodId);
  if (field(method, "source") !== "gift_card") return;
  method.set("amount", pythonSubtract(field(method, "amount"), amount, "-="));
}

/**
 * `payment_history.append` or `.extend`; the history may be any value that was given when the
 * reservation was booked.
 */
function addToHistory(reservation: JsonObject, entries: readonly JsonObject[], method: "append" | "extend"): void {
  if (method === "append" && entries.length === 0) return;
  const history = field(reservation, "payment_history");
  if (!Array.isArray(history)) throw attributeError(history, method);
  history.push(...entries);
}
