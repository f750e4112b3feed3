// Swapping items of an order for other variants of their products: what modifying a pending order and exchanging a
// delivered one check alike, in the same order and words.

import type { JsonObject, JsonValue } from "../../../python-semantics/json/index.ts";
import { pythonAdd, pythonEquals, pythonStr, pythonSubtract } from "../../../python-semantics/index.ts";
import {
  asKey,
  attributeError,
  countIn,
  field,
  iterate,
  lengthOf,
  objectField,
  objectsField,
  textField,
} from "../fields.ts";
import type { World } from "../world.ts";
import type { FoundOrder } from "./orders.ts";

export type ItemPair = { readonly itemId: string; readonly newItemId: string };

export type ItemPairs = {
  readonly pairs: readonly ItemPair[];
  /** New prices less old ones; the int 0 for no items, unrounded otherwise. */
  readonly priceDifference: JsonValue;
};

/** The first id that is asked for more often than the order holds it; `undefined` when all are there. */
export function findMissingItem(order: FoundOrder, itemIds: JsonValue): JsonValue | undefined {
  const ordered = objectsField(order.record, "items").map((item) => field(item, "item_id"));
  return iterate(itemIds).find((id) => countOf(itemIds, id) > countIn(ordered, id));
}

/** The pairs, or the error text of the tool. */
export function pairItems(
  world: World,
  order: FoundOrder,
  { itemIds, newItemIds }: { readonly itemIds: JsonValue; readonly newItemIds: JsonValue },
): ItemPairs | string {
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
export function itemOf(order: JsonObject, itemId: JsonValue): JsonObject {
  return objectsField(order, "items").find((item) => pythonEquals(field(item, "item_id"), itemId))!;
}

/** The variant of the item's product, for reading only; `null` when the product has none of that id. */
export function variantOf(world: World, item: JsonObject, variantId: JsonValue): JsonObject | null {
  const variants = objectField(world.read("products", textField(item, "product_id"))!, "variants");
  const id = asKey(variantId);
  const variant = id === null ? undefined : variants.get(id);
  return variant instanceof Map ? variant : null;
}

/** `itemIds.count(id)`: lists and texts can count. */
function countOf(itemIds: JsonValue, id: JsonValue): number {
  if (Array.isArray(itemIds)) return countIn(itemIds, id);
  if (typeof itemIds === "string") return itemIds.split(id as string).length - 1;
  throw attributeError(itemIds, "count");
}
