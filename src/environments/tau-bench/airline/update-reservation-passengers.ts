// Other people on a reservation; nothing is priced anew.

import { field, lengthOf } from "../fields.ts";
import { defineTool } from "../tool.ts";
import { findReservation } from "./reservations.ts";

/** Other passengers, as many as before; anything that has a length is stored. */
export const updateReservationPassengers = defineTool({
  name: "update_reservation_passengers",
  parameters: ["reservation_id", "passengers"],
  run: (world, { reservation_id, passengers }) => {
    const found = findReservation(world, reservation_id);
    if (found === null) return "Error: reservation not found";
    if (lengthOf(passengers) !== lengthOf(field(found.record, "passengers"))) {
      return "Error: number of passengers does not match";
    }
    world.edit("reservations", found.id).set("passengers", passengers);
    return world.json("reservations", found.id);
  },
});
