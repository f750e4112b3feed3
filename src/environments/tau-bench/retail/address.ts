// The two changes of an address: of an order that is still pending, and of a user. Values of any type are stored, in this
// order of keys; orders keep their address when the user's changes.

import type { JsonObject, JsonValue } from "../../../python-semantics/json/index.ts";
import { asKey } from "../fields.ts";
import { defineTool } from "../tool.ts";
import { orderInStatus } from "./orders.ts";

const parts = ["address1", "address2", "city", "state", "country", "zip"] as const;

export const modifyPendingOrderAddress = defineTool({
  name: "modify_pending_order_address",
  parameters: ["order_id", ...parts],
  run: (world, { order_id, ...address }) => {
    const order = orderInStatus(world, order_id, pendingOrder);
    if (typeof order === "string") return order;
    world.edit("orders", order.id).set("address", addressOf(address));
    return world.json("orders", order.id);
  },
});

export const modifyUserAddress = defineTool({
  name: "modify_user_address",
  parameters: ["user_id", ...parts],
  run: (world, { user_id, ...address }) => {
    const id = asKey(user_id);
    if (id === null || world.read("users", id) === undefined) return "Error: user not found";
    world.edit("users", id).set("address", addressOf(address));
    return world.json("users", id);
  },
});

const pendingOrder = { status: "pending", otherwise: "Error: non-pending order cannot be modified" } as const;

function addressOf(address: Readonly<Record<(typeof parts)[number], JsonValue>>): JsonObject {
  return new Map(parts.map((part) => [part, address[part]]));
}
