// The tools of the shop: looking up, and what changes an order in one status or a user's address. What fits, and in which order it is
// checked, is the reference's, its faults included (`modify_pending_order_items` gives every item the last variant's price).

import { dumpJson, JsonFloat, type JsonObject, type JsonValue } from "../../../python-semantics/json/index.ts";
import { pythonEquals, pythonStr, roundFloat } from "../../../python-semantics/index.ts";
import { asKey, iterate, lengthOf, objectField, objectsField, textField } from "../../tables/index.ts";
import { calculateTool, transferTool, defineTool, defineToolkit, type Method, ModelResult } from "../toolkit.ts";
import type { Database } from "../database.ts";
import { addRounded, countOf, isOneOf, lower, numberOf, requireId, sortedStrings, valueError } from "../python.ts";
import { address, addressParts, orderPayment } from "./retail-models.ts";

/** The tool that shows a record. */
function showTool(name: string, parameter: string, table: string, missing: string): Method {
  return defineTool("read", {
    name,
    parameters: [parameter],
    run: ({ agent }, args) => new ModelResult(agent.read(table, requireId(agent, table, args[parameter]!, missing))!),
  });
}

/** An order by its id, and what the tools ask of it. */
function findOrder(database: Database, id: JsonValue): { readonly id: string; readonly record: JsonObject } {
  const key = requireId(database, "orders", id, "Order not found");
  return { id: key, record: database.read("orders", key)! };
}

function requireStatus(order: JsonObject, status: "pending" | "delivered", verb: string): void {
  if (order.get("status") === status) return;
  throw valueError(`Non-${status} order cannot be ${verb}`);
}

/** An order whose items were modified counts, too. */
function requirePending(order: JsonObject): void {
  if (textField(order, "status").includes("pending")) return;
  throw valueError("Non-pending order cannot be modified");
}

type PaymentMethod = { readonly userId: string; readonly id: string; readonly record: JsonObject };

function findPaymentMethod(database: Database, order: JsonObject, id: JsonValue): PaymentMethod {
  const userId = requireId(database, "users", order.get("user_id")!, "User not found");
  const methods = objectField(database.read("users", userId)!, "payment_methods");
  const key = asKey(id);
  const record = key === null ? undefined : methods.get(key);
  if (!(record instanceof Map)) throw valueError("Payment method not found");
  return { userId, id: key!, record };
}

const isGiftCard = ({ record }: PaymentMethod): boolean => record.get("source") === "gift_card";

function requireBalance(method: PaymentMethod, amount: number, what: string): void {
  if (!isGiftCard(method) || numberOf(method.record, "balance") >= amount) return;
  throw valueError(`Insufficient gift card balance to pay for the ${what}`);
}

/** Of gift cards alone. */
function addToBalance(database: Database, method: PaymentMethod, amount: number): void {
  if (!isGiftCard(method)) return;
  const methods = objectField(database.edit("users", method.userId), "payment_methods");
  addRounded(objectField(methods, method.id), "balance", amount);
}

function historyEntry(type: "payment" | "refund", amount: JsonValue, methodId: JsonValue): JsonObject {
  return orderPayment.make({ transaction_type: type, amount, payment_method_id: methodId });
}

/** Throws for an id that is requested more often than the order has it. */
function requireItems(order: JsonObject, ids: JsonValue, message: (id: JsonValue) => string): void {
  const ordered = objectsField(order, "items").map((item) => item.get("item_id")!);
  for (const id of iterate(ids)) if (countOf(ids, id) > countOf(ordered, id)) throw valueError(message(id));
}

/** The price difference of new variants to items of an order, and the last of the variants. */
function priceSwap(
  database: Database,
  order: JsonObject,
  swap: { readonly old: JsonValue; readonly replacement: JsonValue; readonly refusesSame: boolean },
): { readonly difference: number | null; readonly last: JsonObject | null } {
  const replacements = iterate(swap.replacement);
  let difference: number | null = null;
  let last: JsonObject | null = null;
  for (const [index, id] of iterate(swap.old).entries()) {
    const newId = replacements[index]!;
    if (swap.refusesSame && pythonEquals(id, newId)) {
      throw valueError("The new item id should be different from the old item id");
    }
    const item = objectsField(order, "items").find((candidate) => pythonEquals(candidate.get("item_id")!, id));
    if (item === undefined) throw valueError(`Item ${pythonStr(id)} not found`);
    const productId = requireId(database, "products", item.get("product_id")!, "Product not found");
    const variants = objectField(database.read("products", productId)!, "variants");
    const key = asKey(newId);
    const variant = key === null ? undefined : variants.get(key);
    if (!(variant instanceof Map)) throw valueError("Variant not found");
    if (variant.get("available") !== true) throw valueError(`New item ${pythonStr(newId)} not found or available`);
    difference = (difference ?? 0) + (numberOf(variant, "price") - numberOf(item, "price"));
    last = variant;
  }
  return { difference, last };
}

const getItemDetails = defineTool("read", {
  name: "get_item_details",
  parameters: ["item_id"],
  run: ({ agent }, { item_id }) => {
    const key = asKey(item_id);
    for (const [, product] of agent.records("products")) {
      const variant = key === null ? undefined : objectField(product, "variants").get(key);
      if (variant instanceof Map) return new ModelResult(variant);
    }
    throw valueError("Item not found");
  },
});

const findUserByEmail = defineTool("read", {
  name: "find_user_id_by_email",
  parameters: ["email"],
  run: ({ agent }, { email }) => {
    const needle = lower(email);
    for (const [id, user] of agent.records("users")) if (lower(user.get("email")!) === needle) return id;
    throw valueError("User not found");
  },
});

const findUserByName = defineTool("read", {
  name: "find_user_id_by_name_zip",
  parameters: ["first_name", "last_name", "zip"],
  run: ({ agent }, { first_name, last_name, zip }) => {
    const firstName = lower(first_name);
    for (const [id, user] of agent.records("users")) {
      const name = objectField(user, "name");
      if (lower(name.get("first_name")!) !== firstName) continue;
      // The last name is looked at only when a first name fits, and so is its type.
      if (lower(name.get("last_name")!) !== lower(last_name)) continue;
      if (pythonEquals(objectField(user, "address").get("zip")!, zip)) return id;
    }
    throw valueError("User not found");
  },
});

const listProductTypes = defineTool("read", {
  name: "list_all_product_types",
  parameters: [],
  run: ({ agent }) => {
    const types = Array.from(agent.records("products"), ([, product]): [string, JsonValue] => [
      textField(product, "name"),
      product.get("product_id")!,
    ]);
    return dumpJson(new Map(types), { ensureAscii: true, sortKeys: true });
  },
});

const cancelOrder = defineTool("write", {
  name: "cancel_pending_order",
  parameters: ["order_id", "reason"],
  run: ({ agent }, { order_id, reason }) => {
    const { id, record } = findOrder(agent, order_id);
    requireStatus(record, "pending", "cancelled");
    if (!isOneOf(reason, ["no longer needed", "ordered by mistake"])) throw valueError("Invalid reason");
    // Every entry is refunded, earlier refunds included.
    const refunds = objectsField(record, "payment_history").map((payment) => {
      const method = findPaymentMethod(agent, record, payment.get("payment_method_id")!);
      addToBalance(agent, method, numberOf(payment, "amount"));
      return historyEntry("refund", payment.get("amount")!, method.id);
    });
    const order = agent.edit("orders", id).set("status", "cancelled").set("cancel_reason", reason);
    objectsField(order, "payment_history").push(...refunds);
    return new ModelResult(order);
  },
});

const exchangeItems = defineTool("write", {
  name: "exchange_delivered_order_items",
  parameters: ["order_id", "item_ids", "new_item_ids", "payment_method_id"],
  run: ({ agent }, { order_id, item_ids, new_item_ids, payment_method_id }) => {
    const { id, record } = findOrder(agent, order_id);
    requireStatus(record, "delivered", "exchanged");
    requireItems(record, item_ids, (item) => `Number of ${pythonStr(item)} not found.`);
    if (lengthOf(item_ids) !== lengthOf(new_item_ids)) {
      throw valueError("The number of items to be exchanged should match.");
    }
    const { difference } = priceSwap(agent, record, { old: item_ids, replacement: new_item_ids, refusesSame: false });
    const rounded = difference === null ? null : roundFloat(difference, 2);
    const method = findPaymentMethod(agent, record, payment_method_id);
    requireBalance(method, rounded ?? 0, "price difference");
    const order = agent.edit("orders", id);
    order.set("status", "exchange requested");
    order.set("exchange_items", sortedStrings(item_ids));
    order.set("exchange_new_items", sortedStrings(new_item_ids));
    order.set("exchange_payment_method_id", payment_method_id);
    // Of nothing, the sum is the integer it began with.
    order.set("exchange_price_difference", rounded === null ? 0 : new JsonFloat(rounded));
    return new ModelResult(order);
  },
});

const modifyItems = defineTool("write", {
  name: "modify_pending_order_items",
  parameters: ["order_id", "item_ids", "new_item_ids", "payment_method_id"],
  run: ({ agent }, { order_id, item_ids, new_item_ids, payment_method_id }) => {
    const { id, record } = findOrder(agent, order_id);
    requireStatus(record, "pending", "modified");
    requireItems(record, item_ids, (item) => `${pythonStr(item)} not found`);
    if (lengthOf(item_ids) !== lengthOf(new_item_ids)) {
      throw valueError("The number of items to be exchanged should match");
    }
    const swap = priceSwap(agent, record, { old: item_ids, replacement: new_item_ids, refusesSame: true });
    const difference = swap.difference ?? 0;
    const method = findPaymentMethod(agent, record, payment_method_id);
    requireBalance(method, difference, "new item");
    const order = agent.edit("orders", id);
    const type = difference > 0 ? "payment" : "refund";
    objectsField(order, "payment_history").push(
      historyEntry(type, new JsonFloat(Math.abs(difference)), payment_method_id),
    );
    addToBalance(agent, method, -difference);
    const replacements = iterate(new_item_ids);
    for (const [index, itemId] of iterate(item_ids).entries()) {
      // Found again each time: of two pairs a to b and b to c the second hits the same line again.
      const item = objectsField(order, "items").find((candidate) => pythonEquals(candidate.get("item_id")!, itemId));
      if (item === undefined) throw valueError(`Item ${pythonStr(itemId)} not found`);
      item.set("item_id", replacements[index]!);
      item.set("price", swap.last!.get("price")!);
      item.set("options", new Map(objectField(swap.last!, "options")));
    }
    order.set("status", "pending (item modified)");
    return new ModelResult(order);
  },
});

const modifyPayment = defineTool("write", {
  name: "modify_pending_order_payment",
  parameters: ["order_id", "payment_method_id"],
  run: ({ agent }, { order_id, payment_method_id }) => {
    const { id, record } = findOrder(agent, order_id);
    requirePending(record);
    const method = findPaymentMethod(agent, record, payment_method_id);
    const [first, ...others] = objectsField(record, "payment_history");
    if (first === undefined || others.length > 0 || first.get("transaction_type") !== "payment") {
      throw valueError("There should be exactly one payment for a pending order");
    }
    if (pythonEquals(first.get("payment_method_id")!, payment_method_id)) {
      throw valueError("The new payment method should be different from the current one");
    }
    const amount = numberOf(first, "amount");
    requireBalance(method, amount, "order");
    const order = agent.edit("orders", id);
    objectsField(order, "payment_history").push(
      historyEntry("payment", new JsonFloat(amount), payment_method_id),
      historyEntry("refund", new JsonFloat(amount), first.get("payment_method_id")!),
    );
    addToBalance(agent, method, -amount);
    addToBalance(agent, findPaymentMethod(agent, record, first.get("payment_method_id")!), amount);
    return new ModelResult(order);
  },
});

const signature = ["address1", "address2", "city", "state", "country", "zip"] as const;

function readAddress(args: Readonly<Record<(typeof addressParts)[number], JsonValue>>): JsonObject {
  return address.make(Object.fromEntries(addressParts.map((part) => [part, args[part]])));
}

const modifyOrderAddress = defineTool("write", {
  name: "modify_pending_order_address",
  parameters: ["order_id", ...signature],
  run: ({ agent }, { order_id, ...parts }) => {
    const { id, record } = findOrder(agent, order_id);
    requirePending(record);
    const read = readAddress(parts);
    return new ModelResult(agent.edit("orders", id).set("address", read));
  },
});

const modifyUserAddress = defineTool("write", {
  name: "modify_user_address",
  parameters: ["user_id", ...signature],
  run: ({ agent }, { user_id, ...parts }) => {
    const id = requireId(agent, "users", user_id, "User not found");
    const read = readAddress(parts);
    return new ModelResult(agent.edit("users", id).set("address", read));
  },
});

/** Only notes the request: no money moves. */
const returnItems = defineTool("write", {
  name: "return_delivered_order_items",
  parameters: ["order_id", "item_ids", "payment_method_id"],
  run: ({ agent }, { order_id, item_ids, payment_method_id }) => {
    const { id, record } = findOrder(agent, order_id);
    requireStatus(record, "delivered", "returned");
    const method = findPaymentMethod(agent, record, payment_method_id);
    const original = objectsField(record, "payment_history")[0];
    if (!isGiftCard(method) && !pythonEquals(original?.get("payment_method_id") ?? null, payment_method_id)) {
      throw valueError("Payment method should be the original payment method");
    }
    requireItems(record, item_ids, () => "Some item not found");
    const order = agent.edit("orders", id);
    order.set("status", "return requested");
    order.set("return_items", sortedStrings(item_ids));
    order.set("return_payment_method_id", payment_method_id);
    return new ModelResult(order);
  },
});

export const retailToolkit = defineToolkit("RetailTools", [
  calculateTool,
  cancelOrder,
  exchangeItems,
  findUserByName,
  findUserByEmail,
  showTool("get_order_details", "order_id", "orders", "Order not found"),
  showTool("get_product_details", "product_id", "products", "Product not found"),
  getItemDetails,
  showTool("get_user_details", "user_id", "users", "User not found"),
  listProductTypes,
  modifyOrderAddress,
  modifyItems,
  modifyPayment,
  modifyUserAddress,
  returnItems,
  transferTool,
]);
