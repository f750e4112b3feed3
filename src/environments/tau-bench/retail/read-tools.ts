// The tools that only show records.

import { dumpJson } from "../../../python-semantics/json/index.ts";
import { compareCodePoints } from "../../../python-semantics/index.ts";
import { asKey, field, textField } from "../fields.ts";
import { defineTool } from "../tool.ts";

export const getOrderDetails = defineTool({
  name: "get_order_details",
  parameters: ["order_id"],
  run: (world, { order_id }) => {
    const id = asKey(order_id);
    if (id === null || world.read("orders", id) === undefined) return "Error: order not found";
    return world.json("orders", id);
  },
});

/** By product id; the ids of items are not product ids. */
export const getProductDetails = defineTool({
  name: "get_product_details",
  parameters: ["product_id"],
  run: (world, { product_id }) => {
    const id = asKey(product_id);
    if (id === null || world.read("products", id) === undefined) return "Error: product not found";
    return world.json("products", id);
  },
});

export const listAllProductTypes = defineTool({
  name: "list_all_product_types",
  parameters: [],
  run: (world) => {
    const types = [...world.records("products")].map(([, product]) => {
      return [textField(product, "name"), field(product, "product_id")] as const;
    });
    const byName = [...new Map(types)].sort(([left], [right]) => compareCodePoints(left, right));
    return dumpJson(new Map(byName), { ensureAscii: true });
  },
});
