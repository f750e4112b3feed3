// Another payment method for a pending order. Items are swapped in `modify-pending-order-items.ts`.

import { pythonEquals, pythonLess } from "../../../python-semantics/index.ts";
import { field, objectsField, textField } from "../fields.ts";
import { defineTool } from "../tool.ts";
import { changeBalance, historyEntry, isGiftCardId, orderInStatus, paymentMethodOf } from "./orders.ts";

/** Pays a pending order by another method and refunds the first one. Works once per order. */
export const modifyPendingOrderPayment = defineTool({
  name: "modify_pending_order_payment",
  parameters: ["order_id", "payment_method_id"],
  run: (world, { order_id, payment_method_id }) => {
    const order = orderInStatus(world, order_id, {
      status: "pending",
      otherwise: "Error: non-pending order cannot be modified",
    });
    if (typeof order === "string") return order;
    const method = paymentMethodOf(world, order, payment_method_id);
    if (method === null) return "Error: payment method not found";
    const [first, ...others] = objectsField(order.record, "payment_history");
    if (first === undefined || others.length > 0 || field(first, "transaction_type") !== "payment") {
      return "Error: there should be exactly one payment for a pending order";
    }
    const oldId = textField(first, "payment_method_id");
    if (pythonEquals(oldId, payment_method_id)) {
      return "Error: the new payment method should be different from the current one";
    }
    const amount = field(first, "amount");
    const isGiftCard = field(method, "source") === "gift_card";
    if (isGiftCard && pythonLess(field(method, "balance"), amount)) {
      return "Error: insufficient gift card balance to pay for the order";
    }
    objectsField(world.edit("orders", order.id), "payment_history").push(
      historyEntry("payment", amount, payment_method_id),
      historyEntry("refund", amount, oldId),
    );
    if (isGiftCard) changeBalance(world, order, { methodId: payment_method_id as string, take: amount });
    if (isGiftCardId(oldId)) changeBalance(world, order, { methodId: oldId, add: amount });
    return world.json("orders", order.id);
  },
});
