// Other variants of products in a pending order, paid or refunded at once. The checks are `item-pairs.ts`.

import { JsonFloat, type JsonValue } from "../../../python-semantics/json/index.ts";
import { pythonLess } from "../../../python-semantics/index.ts";
import { field, objectsField } from "../fields.ts";
import { defineTool } from "../tool.ts";
import { itemOf, pairItems, variantOf } from "./item-pairs.ts";
import { changeBalance, historyEntry, orderInStatus, paymentMethodOf } from "./orders.ts";

/** Swaps items of a pending order at once; the new status counts as pending for no tool. The difference stays unrounded. */
export const modifyPendingOrderItems = defineTool({
  name: "modify_pending_order_items",
  parameters: ["order_id", "item_ids", "new_item_ids", "payment_method_id"],
  run: (world, { order_id, item_ids, new_item_ids, payment_method_id }) => {
    const order = orderInStatus(world, order_id, {
      status: "pending",
      otherwise: "Error: non-pending order cannot be modified",
    });
    if (typeof order === "string") return order;
    const swap = pairItems(world, order, { itemIds: item_ids, newItemIds: new_item_ids });
    if (typeof swap === "string") return swap;
    const { pairs, priceDifference } = swap;
    const method = paymentMethodOf(world, order, payment_method_id);
    if (method === null) return "Error: payment method not found";
    const isGiftCard = field(method, "source") === "gift_card";
    if (isGiftCard && pythonLess(field(method, "balance"), priceDifference)) {
      return "Error: insufficient gift card balance to pay for the new item";
    }
    const edited = world.edit("orders", order.id);
    const type = pythonLess(0, priceDifference) ? "payment" : "refund";
    objectsField(edited, "payment_history").push(historyEntry(type, magnitude(priceDifference), payment_method_id));
    if (isGiftCard) changeBalance(world, order, { methodId: payment_method_id as string, take: priceDifference });
    for (const { itemId, newItemId } of pairs) {
      // Found anew each time: of two pairs a to b and b to c the second hits the same line again.
      const item = itemOf(edited, itemId);
      const variant = variantOf(world, item, newItemId)!;
      item.set("item_id", newItemId);
      item.set("price", field(variant, "price"));
      item.set("options", field(variant, "options"));
    }
    edited.set("status", "pending (item modified)");
    return world.json("orders", order.id);
  },
});

/** `abs(difference)`. */
function magnitude(difference: JsonValue): JsonValue {
  return difference instanceof JsonFloat ? new JsonFloat(Math.abs(difference.value)) : difference;
}
