// The airline: flights, reservations, users. `tables/airline.ts` has the tools that change data,
// here with this reference's differences: seats are never taken from a flight, and a changed cabin
// is not stored. Searches go through the flights in file order; flights never change.

import {
  compareCodePoints,
  pythonEquals,
  PythonError,
  pythonInt,
  pythonTypeName,
} from "../../python-semantics/index.ts";
import { dumpJson, type JsonObject, type JsonValue } from "../../python-semantics/json/index.ts";
import {
  airlineChanges,
  airports,
  asKey,
  defineTableTool,
  field,
  fieldAt,
  objectField,
  showTool,
  subscript,
  type Tables,
  textField,
} from "../tables/index.ts";
import { commonTools, findBrokenMethod, refusal, type Shape, shapeProblem, type TauDomain } from "./domain.ts";
import type { SharedBase } from "./world.ts";

const userShape: Shape = {
  fields: { payment_methods: { dictOf: { fields: { source: "text" } } }, reservations: { listOf: "any" } },
};

const flightShape: Shape = {
  fields: {
    origin: "text",
    destination: "text",
    scheduled_departure_time_est: "text",
    scheduled_arrival_time_est: "text",
    dates: { dictOf: { fields: { status: "text" } } },
  },
};

const reservationShape: Shape = {
  fields: {
    user_id: "text",
    cabin: "any",
    flights: {
      listOf: { fields: { flight_number: "any", date: "any", price: "number", origin: "any", destination: "any" } },
    },
    passengers: { listOf: "any" },
    payment_history: { listOf: { fields: { payment_id: "any", amount: "number" } } },
    nonfree_baggages: "number",
  },
};

/** Fields that only flights open for booking have. */
const bookable: Shape = { fields: { available_seats: { dictOf: "number" }, prices: { dictOf: "number" } } };

const changes = airlineChanges({
  refusal,
  missing: (what) => `${what} not found`,
  readList: (_, value) => value,
  fieldOf: (_, item, name) => subscript(item, name),
  segment: (flight, { price, origin, destination }) =>
    (flight as JsonObject).set("price", price).set("origin", origin).set("destination", destination),
  flights: (_, given) => given,
  reservation: (fields) => new Map(Object.entries(fields)),
  payment: (fields) => new Map(Object.entries(fields)),
  certificate: (fields) => new Map(Object.entries(fields)),
  // A fourth reservation overwrites the third.
  fourthReservation: () => "HATHAV",
  // The reference returns None, which breaks its step.
  fourthCertificate: () => null,
  takesSeats: false,
  storesCabin: false,
});

const userNotFound = (): PythonError => refusal("User not found");

const getUserDetails = showTool("get_user_details", ["user_id", "users"], userNotFound);

/** A missing reservation gets the message about a user, as in the reference. */
const getReservationDetails = showTool("get_reservation_details", ["reservation_id", "reservations"], userNotFound);

const airportsText = dumpJson(new Map(airports));

const listAllAirports = defineTableTool({ name: "list_all_airports", parameters: [], run: () => airportsText });

const searchDirectFlight = defineTableTool({
  name: "search_direct_flight",
  parameters: ["origin", "destination", "date"],
  run: (tables, { origin, destination, date }) => {
    const results: JsonValue[] = [];
    for (const flight of flightsFrom(tables, origin)) {
      if (!pythonEquals(field(flight, "destination"), destination)) continue;
      if (isAvailable(flight, date)) results.push(withDay(flight, date));
    }
    return dumpJson(results, { ensureAscii: true });
  },
});

/**
 * Searches two connecting flights. It keeps two flaws of the reference: a connection on the next
 * day is looked up under a date without zero padding ("2024-05-9"), and the second leg shows seats
 * and prices of the first leg's day.
 */
const searchOnestopFlight = defineTableTool({
  name: "search_onestop_flight",
  parameters: ["origin", "destination", "date"],
  run: (tables, { origin, destination, date }) => {
    const results: JsonValue[] = [];
    for (const first of flightsFrom(tables, origin)) {
      for (const second of flightsFrom(tables, field(first, "destination"))) {
        if (!pythonEquals(field(second, "destination"), destination)) continue;
        const arrival = textField(first, "scheduled_arrival_time_est");
        // An invalid date raises here, before any other check of the pair.
        const secondDate = arrival.includes("+1") ? dayAfter(date) : date;
        if (compareCodePoints(arrival, textField(second, "scheduled_departure_time_est")) > 0) continue;
        if (!isAvailable(first, date) || !isAvailable(second, secondDate)) continue;
        results.push([withDay(first, date).set("date", date), withDay(second, date).set("date", secondDate)]);
      }
    }
    return dumpJson(results, { ensureAscii: true });
  },
});

export const airlineDomain: TauDomain = {
  name: "airline",
  tables: { flights: flightShape, reservations: reservationShape, users: userShape },
  splits: ["test"],
  tools: [
    ...commonTools,
    getUserDetails,
    getReservationDetails,
    listAllAirports,
    searchDirectFlight,
    searchOnestopFlight,
    ...changes,
  ],
  terminating: new Set(["transfer_to_human_agents"]),
  findBrokenReference,
};

function findBrokenReference(base: SharedBase): string | null {
  for (const [id, record] of base.table("flights")) {
    for (const [date, day] of objectField(record, "dates")) {
      if (!(day instanceof Map) || field(day, "status") !== "available") continue;
      const problem = shapeProblem(day, bookable, `flights.${id}.dates.${date}`);
      if (problem !== null) return problem;
    }
  }
  const broken = findBrokenMethod(base, (source) => source !== "credit_card", "amount");
  if (broken !== null) return broken;
  for (const [id, record] of base.table("reservations")) {
    const userId = textField(record, "user_id");
    if (!base.table("users").has(userId)) return `reservations.${id} belongs to user "${userId}", who does not exist`;
  }
  return null;
}

function flightsFrom({ base }: Tables, origin: JsonValue): JsonObject[] {
  return [...base.table("flights").values()].filter((flight) => pythonEquals(field(flight, "origin"), origin));
}

function hasDay(flight: JsonObject, date: JsonValue): boolean {
  const day = asKey(date);
  return day !== null && objectField(flight, "dates").has(day);
}

function isAvailable(flight: JsonObject, date: JsonValue): boolean {
  return hasDay(flight, date) && field(dayOf(flight, date), "status") === "available";
}

/** The flight's record of a date. Raises a KeyError if there is none. */
function dayOf(flight: JsonObject, date: JsonValue): JsonObject {
  return fieldAt(objectField(flight, "dates"), date) as JsonObject;
}

/** The flight without its dates, merged with its record of this date. */
function withDay(flight: JsonObject, date: JsonValue): JsonObject {
  return new Map([...[...flight].filter(([key]) => key !== "dates"), ...dayOf(flight, date)]);
}

/** The date after another one, computed as in the reference: `"2024-05-" + (int(date[-2:]) + 1)`. */
function dayAfter(date: JsonValue): string {
  if (date instanceof Map) throw new PythonError("TypeError", "unhashable type: 'slice'");
  if (typeof date !== "string" && !Array.isArray(date)) {
    throw new PythonError("TypeError", `'${pythonTypeName(date)}' object is not subscriptable`);
  }
  const end = Array.isArray(date) ? date.slice(-2) : Array.from(date).slice(-2).join("");
  return `2024-05-${BigInt(pythonInt(end)) + 1n}`;
}
