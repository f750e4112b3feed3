// Other flights for a reservation. The cabin is used for prices and never stored, so the next change compares with the old
// one; origin, destination and kind of journey stay as well. The reference has it so.

import { cloneJson, type JsonObject, type JsonValue } from "../../../python-semantics/json/index.ts";
import { pythonAdd, pythonEquals, pythonMultiply, pythonSubtract } from "../../../python-semantics/index.ts";
import { field, iterate, lengthOf, subscript, textField } from "../fields.ts";
import { defineTool } from "../tool.ts";
import { addFare, priceFlight } from "./price-flights.ts";
import { addToHistory, chargeGiftCard, findReservation, historyEntry, refusePayment } from "./reservations.ts";

export const updateReservationFlights = defineTool({
  name: "update_reservation_flights",
  parameters: ["reservation_id", "cabin", "flights", "payment_id"],
  run: (world, { reservation_id, cabin, flights: named, payment_id }) => {
    const found = findReservation(world, reservation_id);
    if (found === null) return "Error: reservation not found";
    const passengers = field(found.record, "passengers");
    const flights = cloneJson(named);
    let price: JsonValue = 0;
    for (const flight of iterate(flights)) {
      const kept = keptFlight(found.record, flight, cabin);
      const priced = kept === null ? priceFlight(world, flight, { cabin, passengers }) : keep(flight, kept);
      if (typeof priced === "string") return priced;
      price = addFare(price, priced, passengers);
    }
    let before: JsonValue = 0;
    for (const flight of iterate(field(found.record, "flights")))
      before = pythonAdd(before, subscript(flight, "price"));
    price = pythonSubtract(price, pythonMultiply(before, lengthOf(passengers)), "-=");
    const refused = refusePayment(world, found, { methodId: payment_id, price });
    if (refused !== null) return refused;
    const edited = world.edit("reservations", found.id);
    chargeGiftCard(world, textField(edited, "user_id"), { methodId: payment_id, amount: price });
    edited.set("flights", flights);
    if (!pythonEquals(price, 0)) addToHistory(edited, [historyEntry(payment_id, price)], "append");
    return world.json("reservations", found.id);
  },
});

/** The reservation's own flight of that number and day, in the cabin it has now: it keeps its price, unchecked. */
function keptFlight(reservation: JsonObject, flight: JsonValue, cabin: JsonValue): JsonValue {
  const own = iterate(field(reservation, "flights")).find(
    (candidate) =>
      pythonEquals(subscript(candidate, "flight_number"), subscript(flight, "flight_number")) &&
      pythonEquals(subscript(candidate, "date"), subscript(flight, "date")) &&
      pythonEquals(cabin, field(reservation, "cabin")),
  );
  return own ?? null;
}

function keep(flight: JsonValue, own: JsonValue): JsonObject {
  const kept = flight as JsonObject;
  for (const key of ["price", "origin", "destination"]) kept.set(key, subscript(own, key));
  return kept;
}
