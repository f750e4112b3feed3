// The online shop: its data models, with fields in the order in which they are shown, and the tools
// of `tables/shop.ts` with this reference's differences, its bugs included
// (`modify_pending_order_items` gives every item the last variant's price).

import { valueError } from "../../python-semantics/index.ts";
import { asKey, objectField, shopTools } from "../tables/index.ts";
import type { DatabaseSpec } from "./database.ts";
import { boolean, defineModel, dictOf, float, listOf, oneOf, optional, text, unionOf } from "./schema.ts";
import { agentTool, calculateTool, defineTool, defineToolkit, isOneOf, ModelResult, transferTool } from "./toolkit.ts";

const variantModel = defineModel("Variant", { item_id: text, options: dictOf(text), available: boolean, price: float });

const productModel = defineModel("Product", { name: text, product_id: text, variants: dictOf(variantModel.read) });

const addressParts = ["address1", "address2", "city", "country", "state", "zip"] as const;

const address = defineModel("UserAddress", Object.fromEntries(addressParts.map((part) => [part, text])));

const paymentMethod = unionOf(
  defineModel("CreditCard", { source: oneOf("credit_card"), id: text, brand: text, last_four: text }).read,
  defineModel("GiftCard", { source: oneOf("gift_card"), id: text, balance: float }).read,
  defineModel("Paypal", { source: oneOf("paypal"), id: text }).read,
);

const user = defineModel("User", {
  user_id: text,
  name: defineModel("UserName", { first_name: text, last_name: text }).read,
  address: address.read,
  email: text,
  payment_methods: dictOf(paymentMethod),
  orders: listOf(text),
});

/** An entry of a payment history. */
const orderPayment = defineModel("OrderPayment", {
  transaction_type: oneOf("payment", "refund"),
  amount: float,
  payment_method_id: text,
});

const order = defineModel("Order", {
  order_id: text,
  user_id: text,
  address: address.read,
  items: listOf(
    defineModel("OrderItem", { name: text, product_id: text, item_id: text, price: float, options: dictOf(text) }).read,
  ),
  status: oneOf(
    "processed",
    "pending",
    "pending (item modified)",
    "delivered",
    "cancelled",
    "exchange requested",
    "return requested",
  ),
  fulfillments: listOf(defineModel("OrderFullfilment", { tracking_id: listOf(text), item_ids: listOf(text) }).read),
  payment_history: listOf(orderPayment.read),
  cancel_reason: optional(oneOf("no longer needed", "ordered by mistake")),
  exchange_items: optional(listOf(text)),
  exchange_new_items: optional(listOf(text)),
  exchange_payment_method_id: optional(text),
  exchange_price_difference: optional(float),
  return_items: optional(listOf(text)),
  return_payment_method_id: optional(text),
});

export const retailDatabase: DatabaseSpec = {
  name: "RetailDB",
  tables: {
    products: { kind: "dict", model: productModel },
    users: { kind: "dict", model: user },
    orders: { kind: "dict", model: order },
  },
};

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

const { reads, writes } = shopTools({
  refusal: valueError,
  missingItem: (id, verb) => valueError(verb === "exchanged" ? `Number of ${id} not found.` : `${id} not found`),
  unequalLists: (verb) => `The number of items to be exchanged should match${verb === "exchanged" ? "." : ""}`,
  missingVariant: () => "Variant not found",
  wrongReturnMethod: "Payment method should be the original payment method",
  isReason: isOneOf,
  modifiesTwice: true,
  isGiftCard: (_, find) => find().get("source") === "gift_card",
  address: address.make,
  historyEntry: orderPayment.make,
  refusesSameItem: true,
  givesLastVariant: true,
});

export const retailToolkit = defineToolkit("RetailTools", [
  calculateTool,
  transferTool,
  getItemDetails,
  ...reads.map((tool) => agentTool("read", tool)),
  ...writes.map((tool) => agentTool("write", tool)),
]);
