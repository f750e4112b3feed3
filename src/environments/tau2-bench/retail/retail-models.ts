// The data models of the shop, in the order in which their fields are shown.

import type { DatabaseSpec } from "../database.ts";
import { boolean, defineModel, dictOf, float, listOf, oneOf, optional, text, unionOf } from "../schema.ts";

const variant = defineModel("Variant", { item_id: text, options: dictOf(text), available: boolean, price: float });

const product = defineModel("Product", { name: text, product_id: text, variants: dictOf(variant.read) });

export const addressParts = ["address1", "address2", "city", "country", "state", "zip"] as const;

export const address = defineModel("UserAddress", Object.fromEntries(addressParts.map((part) => [part, text])));

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
export const orderPayment = defineModel("OrderPayment", {
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
    products: { kind: "dict", model: product },
    users: { kind: "dict", model: user },
    orders: { kind: "dict", model: order },
  },
};
