// Exchange and return of delivered orders. Both only note the request: no money moves, the items stay.

import { type JsonValue } from "../../../python-semantics/json/index.ts";
import { compareCodePoints, pythonEquals, pythonLess, pythonRound } from "../../../python-semantics/index.ts";
import type { JsonFloat } from "../../../python-semantics/json/index.ts";
import { field, iterate, objectsField } from "../fields.ts";
import { defineTool } from "../tool.ts";
import { findMissingItem, pairItems } from "./item-pairs.ts";
import { isGiftCardId, orderInStatus, paymentMethodOf } from "./orders.ts";

/** The price difference is rounded here, unlike when a pending order is modified. */
export const exchangeDeliveredOrderItems = defineTool({
  name: "exchange_delivered_order_items",
  parameters: ["order_id", "item_ids", "new_item_ids", "payment_method_id"],
  run: (world, { order_id, item_ids, new_item_ids, payment_method_id }) => {
    const order = orderInStatus(world, order_id, {
      status: "delivered",
      otherwise: "Error: non-delivered order cannot be exchanged",
    });
    if (typeof order === "string") return order;
    const swap = pairItems(world, order, { itemIds: item_ids, newItemIds: new_item_ids });
    if (typeof swap === "string") return swap;
    const difference = pythonRound(swap.priceDifference as number | bigint | JsonFloat, 2);
    const method = paymentMethodOf(world, order, payment_method_id);
    if (method === null) return "Error: payment method not found";
    if (field(method, "source") === "gift_card" && pythonLess(field(method, "balance"), difference)) {
      return "Error: insufficient gift card balance to pay for the price difference";
    }
    const edited = world.edit("orders", order.id);
    edited.set("status", "exchange requested");
    edited.set("exchange_items", sorted(item_ids));
    edited.set("exchange_new_items", sorted(new_item_ids));
    edited.set("exchange_payment_method_id", payment_method_id);
    edited.set("exchange_price_difference", difference);
    return world.json("orders", order.id);
  },
});

export const returnDeliveredOrderItems = defineTool({
  name: "return_delivered_order_items",
  parameters: ["order_id", "item_ids", "payment_method_id"],
  run: (world, { order_id, item_ids, payment_method_id }) => {
    const order = orderInStatus(world, order_id, {
      status: "delivered",
      otherwise: "Error: non-delivered order cannot be returned",
    });
    if (typeof order === "string") return order;
    if (paymentMethodOf(world, order, payment_method_id) === null) return "Error: payment method not found";
    const original = field(objectsField(order.record, "payment_history")[0]!, "payment_method_id");
    if (!isGiftCardId(payment_method_id as string) && !pythonEquals(payment_method_id, original)) {
      return "Error: payment method should be either the original payment method or a gift card";
    }
    if (findMissingItem(order, item_ids) !== undefined) return "Error: some item not found";
    const edited = world.edit("orders", order.id);
    edited.set("status", "return requested");
    edited.set("return_items", sorted(item_ids));
    edited.set("return_payment_method_id", payment_method_id);
    return world.json("orders", order.id);
  },
});

/** `sorted(ids)` of ids that were found, so all of them are strings. */
function sorted(ids: JsonValue): JsonValue[] {
  return (iterate(ids) as readonly string[]).toSorted(compareCodePoints);
}
