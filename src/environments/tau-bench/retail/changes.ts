// The tools of the shop that change something: orders in one status, and the address of a user. Values of any type are stored.
// What fits, and in which order it is checked, is the reference's.

import {
  compareCodePoints,
  isOrEquals,
  pythonAdd,
  pythonEquals,
  pythonLess,
  pythonRound,
  pythonStr,
  pythonSubtract,
} from "../../../python-semantics/index.ts";
import { JsonFloat, type JsonObject, type JsonValue } from "../../../python-semantics/json/index.ts";
import { findRecord, type FoundRecord } from "../common/common-tools.ts";
import {
  attributeError,
  countIn,
  entryAt,
  field,
  iterate,
  lengthOf,
  objectField,
  objectsField,
  textField,
} from "../../tables/index.ts";
import { defineTool, type TauTool } from "../tool.ts";
import type { World } from "../world.ts";

type OrderTool<Parameter extends string> = {
  readonly name: string;
  readonly status: "pending" | "delivered";
  /** What an order in another status cannot be. */
  readonly verb: "cancelled" | "exchanged" | "modified" | "returned";
  readonly parameters: readonly Parameter[];
  /** Gives the error text of the tool, or changes the order, which is then the answer. */
  change(this: void, world: World, order: FoundRecord, args: Readonly<Record<Parameter, JsonValue>>): string | null;
};

/** A tool on an order in one status. */
function orderTool<const Parameter extends string>(tool: OrderTool<Parameter>): TauTool {
  const { name, status, verb, change } = tool;
  return defineTool({
    name,
    parameters: ["order_id", ...tool.parameters] as readonly ("order_id" | Parameter)[],
    run: (world, args) => {
      const order = findRecord(world, "orders", args.order_id);
      if (order === null) return "Error: order not found";
      if (field(order.record, "status") !== status) return `Error: non-${status} order cannot be ${verb}`;
      return change(world, order, args) ?? world.json("orders", order.id);
    },
  });
}

/**
 * Cancels a pending order and refunds every entry of its payment history, refunds included: after a change of payment that
 * is three entries. The one tool that gives money back at once.
 */
const cancelPendingOrder = orderTool({
  name: "cancel_pending_order",
  status: "pending",
  verb: "cancelled",
  parameters: ["reason"],
  change: (world, order, { reason }) => {
    const isKnown = ["no longer needed", "ordered by mistake"].some((known) => isOrEquals(known, reason));
    if (!isKnown) return "Error: invalid reason";
    const refunds = objectsField(order.record, "payment_history").map((payment) => {
      const methodId = textField(payment, "payment_method_id");
      const amount = field(payment, "amount");
      if (isGiftCardId(methodId)) changeBalance(world, order, methodId, (balance) => pythonAdd(balance, amount, "+="));
      return historyEntry("refund", amount, methodId);
    });
    const edited = world.edit("orders", order.id);
    edited.set("status", "cancelled");
    edited.set("cancel_reason", reason);
    objectsField(edited, "payment_history").push(...refunds);
    return null;
  },
});

const addressParts = ["address1", "address2", "city", "state", "country", "zip"] as const;

const addressOf = (address: Readonly<Record<(typeof addressParts)[number], JsonValue>>): JsonObject =>
  new Map(addressParts.map((part) => [part, address[part]]));

const modifyPendingOrderAddress = orderTool({
  name: "modify_pending_order_address",
  status: "pending",
  verb: "modified",
  parameters: addressParts,
  change: (world, order, address) => {
    world.edit("orders", order.id).set("address", addressOf(address));
    return null;
  },
});

/** Orders keep their address. */
const modifyUserAddress = defineTool({
  name: "modify_user_address",
  parameters: ["user_id", ...addressParts],
  run: (world, { user_id, ...address }) => {
    const user = findRecord(world, "users", user_id);
    if (user === null) return "Error: user not found";
    world.edit("users", user.id).set("address", addressOf(address));
    return world.json("users", user.id);
  },
});

/** Pays a pending order by another method and refunds the first one. Works once per order. */
const modifyPendingOrderPayment = orderTool({
  name: "modify_pending_order_payment",
  status: "pending",
  verb: "modified",
  parameters: ["payment_method_id"],
  change: (world, order, { payment_method_id }) => {
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
    if (isShortGiftCard(method, amount)) return "Error: insufficient gift card balance to pay for the order";
    objectsField(world.edit("orders", order.id), "payment_history").push(
      historyEntry("payment", amount, payment_method_id),
      historyEntry("refund", amount, oldId),
    );
    if (isGiftCard(method)) charge(world, order, payment_method_id, amount);
    if (isGiftCardId(oldId)) changeBalance(world, order, oldId, (balance) => pythonAdd(balance, amount, "+="));
    return null;
  },
});

/** Swaps items of a pending order at once; the new status counts as pending for no tool. The difference stays unrounded. */
const modifyPendingOrderItems = orderTool({
  name: "modify_pending_order_items",
  status: "pending",
  verb: "modified",
  parameters: ["item_ids", "new_item_ids", "payment_method_id"],
  change: (world, order, { item_ids, new_item_ids, payment_method_id }) => {
    const swap = pairItems(world, order, item_ids, new_item_ids);
    if (typeof swap === "string") return swap;
    const { pairs, priceDifference } = swap;
    const method = paymentMethodOf(world, order, payment_method_id);
    if (method === null) return "Error: payment method not found";
    if (isShortGiftCard(method, priceDifference)) {
      return "Error: insufficient gift card balance to pay for the new item";
    }
    const edited = world.edit("orders", order.id);
    const type = pythonLess(0, priceDifference) ? "payment" : "refund";
    const amount =
      priceDifference instanceof JsonFloat ? new JsonFloat(Math.abs(priceDifference.value)) : priceDifference;
    objectsField(edited, "payment_history").push(historyEntry(type, amount, payment_method_id));
    if (isGiftCard(method)) charge(world, order, payment_method_id, priceDifference);
    for (const { itemId, newItemId } of pairs) {
      // Found again each time: of two pairs a to b and b to c the second hits the same line again.
      const item = itemOf(edited, itemId);
      const variant = variantOf(world, item, newItemId)!;
      item.set("item_id", newItemId);
      item.set("price", field(variant, "price"));
      item.set("options", field(variant, "options"));
    }
    edited.set("status", "pending (item modified)");
    return null;
  },
});

/** Only notes the request: no money moves, the items stay. The price difference is rounded here, unlike above. */
const exchangeDeliveredOrderItems = orderTool({
  name: "exchange_delivered_order_items",
  status: "delivered",
  verb: "exchanged",
  parameters: ["item_ids", "new_item_ids", "payment_method_id"],
  change: (world, order, { item_ids, new_item_ids, payment_method_id }) => {
    const swap = pairItems(world, order, item_ids, new_item_ids);
    if (typeof swap === "string") return swap;
    const difference = pythonRound(swap.priceDifference as number | bigint | JsonFloat, 2);
    const method = paymentMethodOf(world, order, payment_method_id);
    if (method === null) return "Error: payment method not found";
    if (isShortGiftCard(method, difference)) {
      return "Error: insufficient gift card balance to pay for the price difference";
    }
    const edited = world.edit("orders", order.id);
    edited.set("status", "exchange requested");
    edited.set("exchange_items", sorted(item_ids));
    edited.set("exchange_new_items", sorted(new_item_ids));
    edited.set("exchange_payment_method_id", payment_method_id);
    edited.set("exchange_price_difference", difference);
    return null;
  },
});

/** Only notes the request. */
const returnDeliveredOrderItems = orderTool({
  name: "return_delivered_order_items",
  status: "delivered",
  verb: "returned",
  parameters: ["item_ids", "payment_method_id"],
  change: (world, order, { item_ids, payment_method_id }) => {
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
    return null;
  },
});

export const changes = [
  cancelPendingOrder,
  modifyPendingOrderAddress,
  modifyUserAddress,
  modifyPendingOrderPayment,
  modifyPendingOrderItems,
  exchangeDeliveredOrderItems,
  returnDeliveredOrderItems,
];

/** `sorted(ids)` of ids that were found, so all of them are strings. */
function sorted(ids: JsonValue): JsonValue[] {
  return (iterate(ids) as readonly string[]).toSorted(compareCodePoints);
}

/** The order's owner's method of that id, for reading only; `null` when the owner has none. */
function paymentMethodOf(world: World, order: FoundRecord, methodId: JsonValue): JsonObject | null {
  return entryAt(objectField(world.read("users", textField(order.record, "user_id"))!, "payment_methods"), methodId);
}

const isGiftCard = (method: JsonObject): boolean => field(method, "source") === "gift_card";

const isShortGiftCard = (method: JsonObject, price: JsonValue): boolean =>
  isGiftCard(method) && pythonLess(field(method, "balance"), price);

/** Whether the reference takes the id for a gift card's: the name is in it, anywhere. */
const isGiftCardId = (methodId: string): boolean => methodId.includes("gift_card");

/**
 * Changes the balance of the owner's gift card, and rounds it to cents: a balance that was an int becomes a float with the first
 * float amount. A card that is not the owner's is a KeyError.
 */
function changeBalance(
  world: World,
  order: FoundRecord,
  methodId: string,
  change: (balance: JsonValue) => JsonValue,
): void {
  const user = world.edit("users", textField(order.record, "user_id"));
  const card = objectField(objectField(user, "payment_methods"), methodId);
  const balance = change(field(card, "balance"));
  card.set("balance", isNumber(balance) ? pythonRound(balance, 2) : balance);
}

function charge(world: World, order: FoundRecord, methodId: JsonValue, amount: JsonValue): void {
  changeBalance(world, order, methodId as string, (balance) => pythonSubtract(balance, amount, "-="));
}

function isNumber(value: JsonValue): value is number | bigint | JsonFloat {
  return typeof value === "number" || typeof value === "bigint" || value instanceof JsonFloat;
}

/** An entry of `payment_history`. */
function historyEntry(type: "payment" | "refund", amount: JsonValue, methodId: JsonValue): JsonObject {
  return new Map<string, JsonValue>([
    ["transaction_type", type],
    ["amount", amount],
    ["payment_method_id", methodId],
  ]);
}

// Swapping items for other variants of their products: what modifying a pending order and exchanging a delivered one check
// alike, in the same order, with the same messages.

type ItemPair = { readonly itemId: string; readonly newItemId: string };

type ItemPairs = {
  readonly pairs: readonly ItemPair[];
  /** New prices less old ones; the int 0 for no items, unrounded otherwise. */
  readonly priceDifference: JsonValue;
};

/** The first id that is requested more often than the order holds it; `undefined` when all are there. */
function findMissingItem(order: FoundRecord, itemIds: JsonValue): JsonValue | undefined {
  const ordered = objectsField(order.record, "items").map((item) => field(item, "item_id"));
  return iterate(itemIds).find((id) => countOf(itemIds, id) > countIn(ordered, id));
}

/** The pairs, or the error text of the tool. */
function pairItems(world: World, order: FoundRecord, itemIds: JsonValue, newItemIds: JsonValue): ItemPairs | string {
  const missing = findMissingItem(order, itemIds);
  if (missing !== undefined) return `Error: ${pythonStr(missing)} not found`;
  if (lengthOf(itemIds) !== lengthOf(newItemIds)) return "Error: the number of items to be exchanged should match";
  const newIds = iterate(newItemIds);
  const pairs: ItemPair[] = [];
  let priceDifference: JsonValue = 0;
  for (const [index, itemId] of iterate(itemIds).entries()) {
    const item = itemOf(order.record, itemId);
    const newId = newIds[index]!;
    const variant = variantOf(world, item, newId);
    if (variant === null || field(variant, "available") !== true) {
      return `Error: new item ${pythonStr(newId)} not found or available`;
    }
    priceDifference = pythonAdd(priceDifference, pythonSubtract(field(variant, "price"), field(item, "price")), "+=");
    pairs.push({ itemId: itemId as string, newItemId: newId as string });
  }
  return { pairs, priceDifference };
}

/** The first item of the order that has this id now. */
function itemOf(order: JsonObject, itemId: JsonValue): JsonObject {
  return objectsField(order, "items").find((item) => pythonEquals(field(item, "item_id"), itemId))!;
}

/** The variant of the item's product, for reading only; `null` when the product has none of that id. */
function variantOf(world: World, item: JsonObject, variantId: JsonValue): JsonObject | null {
  return entryAt(objectField(world.read("products", textField(item, "product_id"))!, "variants"), variantId);
}

/** `itemIds.count(id)`: lists and strings can count. */
function countOf(itemIds: JsonValue, id: JsonValue): number {
  if (Array.isArray(itemIds)) return countIn(itemIds, id);
  if (typeof itemIds === "string") return itemIds.split(id as string).length - 1;
  throw attributeError(itemIds, "count");
}
