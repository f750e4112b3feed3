// The online shop: orders, products, users. Its tools are those of `tables/shop.ts`, with this
// reference's differences.

import { isOrEquals, PythonError } from "../../python-semantics/index.ts";
import { objectsField, shopTools, textField } from "../tables/index.ts";
import { commonTools, findBrokenMethod, refusal, type Shape, type TauDomain } from "./domain.ts";
import type { SharedBase } from "./world.ts";

const userShape: Shape = {
  fields: {
    name: { fields: { first_name: "text", last_name: "text" } },
    email: "text",
    address: { fields: { zip: "any" } },
    payment_methods: { dictOf: { fields: { source: "text" } } },
  },
};

const orderShape: Shape = {
  fields: {
    user_id: "text",
    status: "text",
    items: { listOf: { fields: { item_id: "text", product_id: "text", price: "number" } } },
    payment_history: {
      listOf: { fields: { transaction_type: "text", amount: "number", payment_method_id: "text" } },
    },
  },
};

const productShape: Shape = {
  fields: {
    name: "text",
    product_id: "any",
    variants: { dictOf: { fields: { available: "bool", price: "number", options: "any" } } },
  },
};

const { reads, writes } = shopTools({
  refusal,
  missingItem: (id) => new PythonError("ValueError", `${id} not found`),
  unequalLists: () => "The number of items to be exchanged should match",
  missingVariant: (id) => `New item ${id} not found or available`,
  wrongReturnMethod: "Payment method should be either the original payment method or a gift card",
  isReason: (reason, known) => known.some((one) => isOrEquals(one, reason)),
  modifiesTwice: false,
  // The reference searches the id for the name.
  isGiftCard: (methodId) => methodId.includes("gift_card"),
  address: (parts) => new Map(Object.entries(parts)),
  historyEntry: (entry) => new Map(Object.entries(entry)),
  refusesSameItem: false,
  givesLastVariant: false,
});

export const retailDomain: TauDomain = {
  name: "retail",
  tables: { orders: orderShape, products: productShape, users: userShape },
  splits: ["train", "test", "dev"],
  tools: [...commonTools, ...reads, ...writes],
  terminating: new Set(["transfer_to_human_agents"]),
  findBrokenReference,
};

function findBrokenReference(base: SharedBase): string | null {
  const broken = findBrokenMethod(base, (source) => source === "gift_card", "balance");
  if (broken !== null) return broken;
  for (const [id, record] of base.table("orders")) {
    const userId = textField(record, "user_id");
    if (!base.table("users").has(userId)) return `orders.${id} belongs to user "${userId}", who does not exist`;
    if (objectsField(record, "payment_history").length === 0) return `orders.${id}.payment_history is empty`;
    for (const item of objectsField(record, "items")) {
      const productId = textField(item, "product_id");
      if (!base.table("products").has(productId)) {
        return `orders.${id} holds an item of product "${productId}", which does not exist`;
      }
    }
  }
  return null;
}
