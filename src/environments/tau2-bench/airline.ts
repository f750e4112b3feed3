// The airline: its data models, with fields in the order in which they are shown, the tools of
// `tables/airline.ts` with this reference's differences, and the searches. Arguments of any type
// are accepted: as in the reference, a list becomes models if all its items are objects, and is
// kept unchanged otherwise.

import { compareCodePoints, pythonEquals, pythonStr, valueError } from "../../python-semantics/index.ts";
import type { JsonObject, JsonValue } from "../../python-semantics/json/index.ts";
import {
  airlineChanges,
  airports,
  asKey,
  attributeError,
  entryAt,
  field,
  iterate,
  objectField,
  showTool,
  textField,
} from "../tables/index.ts";
import type { Database, DatabaseSpec } from "./database.ts";
import {
  defineModel,
  dictOf,
  type FieldType,
  float,
  integer,
  listOf,
  oneOf,
  optional,
  text,
  unionOf,
} from "./schema.ts";
import {
  agentTool,
  calculateTool,
  defineTool,
  defineToolkit,
  type Method,
  ModelResult,
  requireId,
  transferTool,
} from "./toolkit.ts";

const cabins = ["business", "economy", "basic_economy"] as const;
const cabin = oneOf(...cabins);

/** An amount per cabin. */
const byCabin: FieldType = (value, place) => {
  const record = dictOf(integer)(value, place);
  if (record instanceof Map) for (const key of record.keys()) cabin(key, place);
  return record;
};

const flightDate = unionOf(
  defineModel("FlightDateStatusAvailable", { status: oneOf("available"), available_seats: byCabin, prices: byCabin })
    .read,
  defineModel("FlightDateStatusLanded", {
    status: oneOf("landed"),
    actual_departure_time_est: text,
    actual_arrival_time_est: text,
  }).read,
  defineModel("FlightDateStatusCancelled", { status: oneOf("cancelled") }).read,
  defineModel("FlightDateStatusDelayed", {
    status: oneOf("delayed"),
    estimated_departure_time_est: text,
    estimated_arrival_time_est: text,
  }).read,
  defineModel("FlightDataStatusFlying", {
    status: oneOf("flying"),
    actual_departure_time_est: text,
    estimated_arrival_time_est: text,
  }).read,
  defineModel("FlightDataStatusOnTime", {
    status: oneOf("on time"),
    estimated_departure_time_est: text,
    estimated_arrival_time_est: text,
  }).read,
);

const flightBase = { flight_number: text, origin: text, destination: text } as const;

const flightModel = defineModel("Flight", {
  ...flightBase,
  scheduled_departure_time_est: text,
  scheduled_arrival_time_est: text,
  dates: dictOf(flightDate),
});

/** A flight as found by a search. */
const directFlight = defineModel("DirectFlight", {
  ...flightBase,
  status: oneOf("available"),
  scheduled_departure_time_est: text,
  scheduled_arrival_time_est: text,
  date: optional(text),
  available_seats: byCabin,
  prices: byCabin,
});

const reservationFlight = defineModel("ReservationFlight", { ...flightBase, date: text, price: integer });

const flightInfo = defineModel("FlightInfo", { flight_number: text, date: text });

const passenger = defineModel("Passenger", { first_name: text, last_name: text, dob: text });

const payment = defineModel("Payment", { payment_id: text, amount: integer });

const certificate = defineModel("Certificate", { source: oneOf("certificate"), id: text, amount: float });

const user = defineModel("User", {
  user_id: text,
  name: defineModel("Name", { first_name: text, last_name: text }).read,
  address: defineModel("Address", {
    address1: text,
    address2: optional(text),
    city: text,
    country: text,
    state: text,
    zip: text,
  }).read,
  email: text,
  dob: text,
  payment_methods: dictOf(
    unionOf(
      defineModel("CreditCard", { source: oneOf("credit_card"), id: text, brand: text, last_four: text }).read,
      defineModel("GiftCard", { source: oneOf("gift_card"), id: text, amount: float }).read,
      certificate.read,
    ),
  ),
  saved_passengers: listOf(passenger.read),
  membership: oneOf("gold", "silver", "regular"),
  reservations: listOf(text),
});

const reservation = defineModel("Reservation", {
  reservation_id: text,
  user_id: text,
  origin: text,
  destination: text,
  flight_type: oneOf("round_trip", "one_way"),
  cabin,
  flights: listOf(reservationFlight.read),
  passengers: listOf(passenger.read),
  payment_history: listOf(payment.read),
  created_at: text,
  total_baggages: integer,
  nonfree_baggages: integer,
  insurance: oneOf("yes", "no"),
  status: optional(oneOf("cancelled")),
});

export const airlineDatabase: DatabaseSpec = {
  name: "FlightDB",
  tables: {
    flights: { kind: "dict", model: flightModel },
    users: { kind: "dict", model: user },
    reservations: { kind: "dict", model: reservation },
  },
};

const models = { flight: flightInfo, passenger, payment } as const;

const isObject = (value: JsonValue): value is JsonObject => value instanceof Map;

const missing = (what: string, id: JsonValue): string => `${what} ${pythonStr(id)} not found`;

const changes = airlineChanges({
  refusal: valueError,
  missing,
  readList: (kind, value) => {
    const [items, { read, name }] = [iterate(value), models[kind]];
    return items.every(isObject) ? items.map((item) => read(item, name)) : value;
  },
  // Only models have attributes; plain objects raise an AttributeError.
  fieldOf: (items, item, name) => {
    if (items.every(isObject)) return field(item as JsonObject, name);
    throw attributeError(item, name);
  },
  segment: (_, { number, date, price, origin, destination }) =>
    reservationFlight.make({ flight_number: number, origin, destination, date, price }),
  flights: (segments) => segments,
  reservation: reservation.make,
  payment: payment.make,
  certificate: certificate.make,
  fourthReservation: () => {
    throw valueError("Too many reservations");
  },
  fourthCertificate: () => {
    throw valueError("Too many certificates");
  },
  takesSeats: true,
  storesCabin: true,
});

type Search = {
  readonly date: JsonValue;
  readonly origin: JsonValue;
  readonly destination: JsonValue;
  readonly after: string | null;
};

/** Flights available on a date; `null` instead of a city matches any city. */
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
      // The reference fixes the month and does not pad the day with a zero.
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

const getFlightStatus = defineTool("read", {
  name: "get_flight_status",
  parameters: ["flight_number", "date"],
  run: ({ agent }, { flight_number, date }) => {
    const number = requireId(agent, "flights", flight_number, missing("Flight", flight_number));
    const onDay = entryAt(objectField(agent.read("flights", number)!, "dates"), date);
    if (onDay === null) throw valueError(`${missing("Flight", flight_number)} on date ${pythonStr(date)}`);
    return textField(onDay, "status");
  },
});

const shown = (name: string, what: "Reservation" | "User"): Method => {
  const noun = what.toLowerCase();
  return agentTool(
    "read",
    showTool(name, [`${noun}_id`, `${noun}s`], (id) => valueError(missing(what, id))),
  );
};

export const airlineToolkit = defineToolkit("AirlineTools", [
  calculateTool,
  transferTool,
  shown("get_reservation_details", "Reservation"),
  shown("get_user_details", "User"),
  listAirports,
  searchDirect,
  searchOneStop,
  getFlightStatus,
  ...changes.map((tool) => agentTool("write", tool)),
]);
