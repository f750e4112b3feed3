// The one look-up of this domain besides the user's.

import { asKey } from "../fields.ts";
import { defineTool } from "../tool.ts";

/** A reservation as JSON. One that does not exist is answered with the words for a user, as the reference does. */
export const getReservationDetails = defineTool({
  name: "get_reservation_details",
  parameters: ["reservation_id"],
  run: (world, { reservation_id }) => {
    const id = asKey(reservation_id);
    if (id === null || world.read("reservations", id) === undefined) return "Error: user not found";
    return world.json("reservations", id);
  },
});
