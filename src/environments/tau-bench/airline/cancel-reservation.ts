// Cancelling. Nothing is looked at: a reservation can be cancelled twice, which doubles its history, and stays usable.

import { pythonNegate } from "../../../python-semantics/index.ts";
import { field, iterate, subscript } from "../fields.ts";
import { defineTool } from "../tool.ts";
import { addToHistory, findReservation, historyEntry } from "./reservations.ts";

/** Notes a refund for every entry of the history; no card gets its money back. */
export const cancelReservation = defineTool({
  name: "cancel_reservation",
  parameters: ["reservation_id"],
  run: (world, { reservation_id }) => {
    const found = findReservation(world, reservation_id);
    if (found === null) return "Error: reservation not found";
    const refunds = iterate(field(found.record, "payment_history")).map((payment) =>
      historyEntry(subscript(payment, "payment_id"), pythonNegate(subscript(payment, "amount"))),
    );
    const edited = world.edit("reservations", found.id);
    addToHistory(edited, refunds, "extend");
    edited.set("status", "cancelled");
    return world.json("reservations", found.id);
  },
});
