// Flights that a caller names, checked and priced one after the other: what booking and changing a reservation do alike.

import type { JsonObject, JsonValue } from "../../../python-semantics/json/index.ts";
import { pythonAdd, pythonLess, pythonMultiply, pythonStr } from "../../../python-semantics/index.ts";
import { asKey, field, fieldAt, lengthOf, objectField, subscript } from "../fields.ts";
import type { World } from "../world.ts";

export type Pricing = {
  readonly cabin: JsonValue;
  /** Whoever travels; only their number matters, and it is asked for only where it is needed. */
  readonly passengers: JsonValue;
};

/** Checks one flight and writes its price and ends onto it; the error text of the tool otherwise. */
export function priceFlight(world: World, flight: JsonValue, { cabin, passengers }: Pricing): string | JsonObject {
  const number = subscript(flight, "flight_number");
  const id = asKey(number);
  const known = id === null ? undefined : world.base.table("flights").get(id);
  if (known === undefined) return `Error: flight ${pythonStr(number)} not found`;
  const date = subscript(flight, "date");
  const day = asKey(date);
  const onDay = day === null ? undefined : objectField(known, "dates").get(day);
  if (!(onDay instanceof Map)) return `Error: flight ${pythonStr(number)} not found on date ${pythonStr(date)}`;
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
export function addFare(total: JsonValue, flight: JsonObject, passengers: JsonValue): JsonValue {
  return pythonAdd(total, pythonMultiply(field(flight, "price"), lengthOf(passengers)), "+=");
}
