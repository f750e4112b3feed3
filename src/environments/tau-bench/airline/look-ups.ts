// The tools of the airline that only read. Searches walk through the flights in file order; flights never change.

import {
  compareCodePoints,
  pythonEquals,
  PythonError,
  pythonInt,
  pythonTypeName,
} from "../../../python-semantics/index.ts";
import { dumpJson, type JsonObject, type JsonValue } from "../../../python-semantics/json/index.ts";
import { showTool } from "../common/common-tools.ts";
import { airports, asKey, field, fieldAt, objectField, textField } from "../../tables/index.ts";
import { defineTool } from "../tool.ts";
import type { World } from "../world.ts";

/** A reservation that does not exist is answered with the message for a user, as the reference does. */
const getReservationDetails = showTool(
  "get_reservation_details",
  "reservation_id",
  "reservations",
  "Error: user not found",
);

const airportsText = dumpJson(new Map(airports));

const listAllAirports = defineTool({ name: "list_all_airports", parameters: [], run: () => airportsText });

const searchDirectFlight = defineTool({
  name: "search_direct_flight",
  parameters: ["origin", "destination", "date"],
  run: (world, { origin, destination, date }) => {
    const results: JsonValue[] = [];
    for (const flight of flightsFrom(world, origin)) {
      if (!pythonEquals(field(flight, "destination"), destination)) continue;
      if (isAvailable(flight, date)) results.push(withDay(flight, date));
    }
    return dumpJson(results, { ensureAscii: true });
  },
});

/**
 * Two flights in a row. The reference has two flaws that we keep: a connection on the next day is looked up under a date
 * without zero padding ("2024-05-9"), and the second leg shows seats and prices of the first leg's day.
 */
const searchOnestopFlight = defineTool({
  name: "search_onestop_flight",
  parameters: ["origin", "destination", "date"],
  run: (world, { origin, destination, date }) => {
    const results: JsonValue[] = [];
    for (const first of flightsFrom(world, origin)) {
      for (const second of flightsFrom(world, field(first, "destination"))) {
        if (!pythonEquals(field(second, "destination"), destination)) continue;
        const arrival = textField(first, "scheduled_arrival_time_est");
        // A broken date is noticed here, before anything else about the pair.
        const secondDate = arrival.includes("+1") ? dayAfter(date) : date;
        if (compareCodePoints(arrival, textField(second, "scheduled_departure_time_est")) > 0) continue;
        if (!isAvailable(first, date) || !isAvailable(second, secondDate)) continue;
        results.push([withDay(first, date).set("date", date), withDay(second, date).set("date", secondDate)]);
      }
    }
    return dumpJson(results, { ensureAscii: true });
  },
});

export const lookUps = [getReservationDetails, listAllAirports, searchDirectFlight, searchOnestopFlight];

function flightsFrom(world: World, origin: JsonValue): JsonObject[] {
  return [...world.base.table("flights").values()].filter((flight) => pythonEquals(field(flight, "origin"), origin));
}

function hasDay(flight: JsonObject, date: JsonValue): boolean {
  const day = asKey(date);
  return day !== null && objectField(flight, "dates").has(day);
}

function isAvailable(flight: JsonObject, date: JsonValue): boolean {
  return hasDay(flight, date) && field(dayOf(flight, date), "status") === "available";
}

/** A KeyError when the flight has no such day. */
function dayOf(flight: JsonObject, date: JsonValue): JsonObject {
  return fieldAt(objectField(flight, "dates"), date) as JsonObject;
}

/** The flight without its days, and what is known of this one. */
function withDay(flight: JsonObject, date: JsonValue): JsonObject {
  return new Map([...[...flight].filter(([key]) => key !== "dates"), ...dayOf(flight, date)]);
}

/** `"2024-05-" + (int(date[-2:]) + 1)`. */
function dayAfter(date: JsonValue): string {
  if (date instanceof Map) throw new PythonError("TypeError", "unhashable type: 'slice'");
  if (typeof date !== "string" && !Array.isArray(date)) {
    throw new PythonError("TypeError", `'${pythonTypeName(date)}' object is not subscriptable`);
  }
  const end = Array.isArray(date) ? date.slice(-2) : Array.from(date).slice(-2).join("");
  return `2024-05-${BigInt(pythonInt(end)) + 1n}`;
}
