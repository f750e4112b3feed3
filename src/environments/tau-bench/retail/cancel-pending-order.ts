// The one tool that gives money back at once. Exchange and return only note a request, see `delivered-orders.ts`.

import { isOrEquals } from "../../../python-semantics/index.ts";
import { field, objectsField, textField } from "../fields.ts";
import { defineTool } from "../tool.ts";
import { changeBalance, historyEntry, isGiftCardId, orderInStatus } from "./orders.ts";

const reasons = ["no longer needed", "ordered by mistake"];

/**
 * Cancels a pending order and refunds every entry of its payment history, refunds included: after a change of payment that
 * is three entries. The reference does so, and so must we.
 */
export const cancelPendingOrder = defineTool({
  name: "cancel_pending_order",
  parameters: ["order_id", "reason"],
  run: (world, { order_id, reason }) => {
    const order = orderInStatus(world, order_id, {
      status: "pending",
      otherwise: "Error: non-pending order cannot be cancelled",
    });
    if (typeof order === "string") return order;
    if (!reasons.some((known) => isOrEquals(known, reason))) return "Error: invalid reason";
    const refunds = objectsField(order.record, "payment_history").map((payment) => {
      const methodId = textField(payment, "payment_method_id");
      const amount = field(payment, "amount");
      if (isGiftCardId(methodId)) changeBalance(world, order, { methodId, add: amount });
      return historyEntry("refund", amount, methodId);
    });
    const edited = world.edit("orders", order.id);
    edited.set("status", "cancelled");
    edited.set("cancel_reason", reason);
    objectsField(edited, "payment_history").push(...refunds);
    return world.json("orders", order.id);
  },
});
