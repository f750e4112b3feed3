// More or fewer bags. More cost money, fewer give none back.

import { pythonLess, pythonMultiply, pythonSubtract, pythonEquals } from "../../../python-semantics/index.ts";
import { field, textField } from "../fields.ts";
import { defineTool } from "../tool.ts";
import { addToHistory, chargeGiftCard, findReservation, historyEntry, refusePayment } from "./reservations.ts";

export const updateReservationBaggages = defineTool({
  name: "update_reservation_baggages",
  parameters: ["reservation_id", "total_baggages", "nonfree_baggages", "payment_id"],
  run: (world, { reservation_id, total_baggages, nonfree_baggages, payment_id }) => {
    const found = findReservation(world, reservation_id);
    if (found === null) return "Error: reservation not found";
    const more = pythonSubtract(nonfree_baggages, field(found.record, "nonfree_baggages"));
    // `max(0, more)` is the int 0 unless more is greater, so 0.0 and NaN cost the int 0.
    const price = pythonMultiply(50, pythonLess(0, more) ? more : 0);
    const refused = refusePayment(world, found, { methodId: payment_id, price });
    if (refused !== null) return refused;
    const edited = world.edit("reservations", found.id);
    edited.set("total_baggages", total_baggages);
    edited.set("nonfree_baggages", nonfree_baggages);
    chargeGiftCard(world, textField(edited, "user_id"), { methodId: payment_id, amount: price });
    if (!pythonEquals(price, 0)) addToHistory(edited, [historyEntry(payment_id, price)], "append");
    return world.json("reservations", found.id);
  },
});
