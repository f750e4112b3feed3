// The tools of the online shop, shared by both benchmarks: the checks, their order, and the
// changes. The second benchmark rewrote the first one's tools, so they differ in details, not in
// kind: `ShopReference` has the differences. Values of any type are accepted and stored; they raise
// the errors that Python raises.

import {
  pythonAdd,
  pythonEquals,
  type PythonError,
  pythonLess,
  pythonLower,
  pythonRound,
  pythonStr,
  pythonSubtract,
} from "../../python-semantics/index.ts";
import { dumpJson, JsonFloat, type JsonObject, type JsonValue } from "../../python-semantics/json/index.ts";
import {
  countOf,
  entryAt,
  field,
  iterate,
  lengthOf,
  lower,
  objectField,
  objectsField,
  sortedStrings,
  textField,
} from "./fields.ts";
import { defineTableTool, findRecord, type FoundRecord, showTool, type TableTool } from "./table-tool.ts";
import { remembered, type SharedTables, type Tables } from "./tables.ts";

const addressParts = ["address1", "address2", "city", "state", "country", "zip"] as const;

/** Differences between the references. */
export type ShopReference = {
  /** The error of a refusal, given its sentence, which begins with a capital and has no full stop. */
  readonly refusal: (sentence: string) => PythonError;
  /** The error for an item that the order does not contain often enough. */
  readonly missingItem: (id: string, verb: "exchanged" | "modified") => PythonError;
  /** The sentence about lists of different lengths. */
  readonly unequalLists: (verb: "exchanged" | "modified") => string;
  /** The sentence about an id that no variant of the product has. */
  readonly missingVariant: (id: string) => string;
  /** The sentence about a payment method that is neither the original one nor a gift card. */
  readonly wrongReturnMethod: string;
  /** True if a reason to cancel is one of the known reasons. */
  readonly isReason: (reason: JsonValue, known: readonly string[]) => boolean;
  /** True if address and payment of an order can still be modified after its items were. */
  readonly modifiesTwice: boolean;
  /**
   * True if a refund goes to a gift card of the owner. `find` throws if the owner has no such
   * payment method.
   */
  readonly isGiftCard: (methodId: string, find: () => JsonObject) => boolean;
  /**
   * The stored form of an address and of an entry of `payment_history`. They throw for invalid
   * parts.
   */
  readonly address: (parts: Readonly<Record<string, JsonValue>>) => JsonObject;
  readonly historyEntry: (entry: Readonly<Record<string, JsonValue>>) => JsonObject;
  /** True if a modified item must get a variant other than its own. */
  readonly refusesSameItem: boolean;
  /** True if all modified items get the price and options of the last variant. */
  readonly givesLastVariant: boolean;
};

/** The tools. They accept values of any type, so that all checks are the references' own. */
export function shopTools(reference: ShopReference): {
  readonly reads: readonly TableTool[];
  readonly writes: readonly TableTool[];
} {
  const { refusal } = reference;

  const find = (tables: Tables, table: string, id: JsonValue, sentence: string): FoundRecord => {
    const found = findRecord(tables, table, id);
    if (found === null) throw refusal(sentence);
    return found;
  };
  const findOrder = (tables: Tables, id: JsonValue): FoundRecord => find(tables, "orders", id, "Order not found");
  const findUser = (tables: Tables, id: JsonValue): FoundRecord => find(tables, "users", id, "User not found");

  /** A payment method of an order's owner, for reading only. */
  const findMethod = (tables: Tables, { record: order }: FoundRecord, id: JsonValue): JsonObject => {
    const owner = findUser(tables, field(order, "user_id")).record;
    const method = entryAt(objectField(owner, "payment_methods"), id);
    if (method === null) throw refusal("Payment method not found");
    return method;
  };

  const requireBalance = (method: JsonObject, price: JsonValue, what: string): void => {
    if (!isGiftCard(method) || !pythonLess(field(method, "balance"), price)) return;
    throw refusal(`Insufficient gift card balance to pay for the ${what}`);
  };

  /** Refunds a payment by gift card at once; other methods are refunded elsewhere. */
  const refund = (
    tables: Tables,
    order: FoundRecord,
    payment: { readonly id: string; readonly amount: JsonValue },
  ): void => {
    const { id, amount } = payment;
    if (!reference.isGiftCard(id, () => findMethod(tables, order, id))) return;
    changeBalance(tables, order, id, (balance) => pythonAdd(balance, amount, "+="));
  };

  const historyEntry = (type: "payment" | "refund", amount: JsonValue, methodId: JsonValue): JsonObject =>
    reference.historyEntry({ transaction_type: type, amount, payment_method_id: methodId });

  /**
   * The variant of an item's product, for reading only; `null` if the product has no variant with
   * that id.
   */
  const variantOf = (tables: Tables, item: JsonObject, variantId: JsonValue): JsonObject | null => {
    const product = find(tables, "products", field(item, "product_id"), "Product not found").record;
    return entryAt(objectField(product, "variants"), variantId);
  };

  /** The first item of an order that currently has this id. */
  const itemOf = (order: JsonObject, itemId: JsonValue): JsonObject => {
    const item = objectsField(order, "items").find((candidate) => pythonEquals(field(candidate, "item_id"), itemId));
    if (item === undefined) throw refusal(`Item ${pythonStr(itemId)} not found`);
    return item;
  };

  /**
   * Pairs items with other variants of their products. Returns the pairs of ids, and the new prices
   * minus the old ones, unrounded.
   */
  const pairItems = (
    tables: Tables,
    { record: order }: FoundRecord,
    swap: { readonly items: JsonValue; readonly variants: JsonValue; readonly verb: "exchanged" | "modified" },
  ): {
    readonly pairs: readonly (readonly [itemId: JsonValue, newId: JsonValue])[];
    /** The price difference; the int 0 if no items are given. */
    readonly difference: JsonValue;
    readonly last: JsonObject | null;
  } => {
    const missing = findMissingItem(order, swap.items);
    if (missing !== undefined) throw reference.missingItem(pythonStr(missing), swap.verb);
    if (lengthOf(swap.items) !== lengthOf(swap.variants)) throw refusal(reference.unequalLists(swap.verb));
    const newIds = iterate(swap.variants);
    const pairs = iterate(swap.items).map((itemId, index) => [itemId, newIds[index]!] as const);
    let difference: JsonValue = 0;
    let last: JsonObject | null = null;
    for (const [itemId, newId] of pairs) {
      if (swap.verb === "modified" && reference.refusesSameItem && pythonEquals(itemId, newId)) {
        throw refusal("The new item id should be different from the old item id");
      }
      const item = itemOf(order, itemId);
      last = variantOf(tables, item, newId);
      if (last === null) throw refusal(reference.missingVariant(pythonStr(newId)));
      if (field(last, "available") !== true) throw refusal(`New item ${pythonStr(newId)} not found or available`);
      difference = pythonAdd(difference, pythonSubtract(field(last, "price"), field(item, "price")), "+=");
    }
    return { pairs, difference, last };
  };

  const addressOf = (args: Readonly<Record<(typeof addressParts)[number], JsonValue>>): JsonObject =>
    reference.address(Object.fromEntries(addressParts.map((part) => [part, args[part]])));

  /** A tool on an order, which must have the status. Returns the order after the change. */
  const orderTool = <const Parameter extends string>(tool: {
    readonly name: string;
    readonly status: "pending" | "delivered";
    /** The action that is refused for an order with another status. */
    readonly verb: "cancelled" | "exchanged" | "modified" | "returned";
    /**
     * True if the tool also accepts orders whose items were modified, where the reference allows
     * it.
     */
    readonly takesModified?: boolean;
    readonly parameters: readonly Parameter[];
    change(this: void, tables: Tables, order: FoundRecord, args: Readonly<Record<Parameter, JsonValue>>): void;
  }): TableTool => {
    const { name, status, verb, takesModified = false, change } = tool;
    return defineTableTool({
      name,
      parameters: ["order_id", ...tool.parameters] as readonly ("order_id" | Parameter)[],
      run: (tables, args) => {
        const order = findOrder(tables, args.order_id);
        const found = textField(order.record, "status");
        const isModified = takesModified && reference.modifiesTwice && found.includes(status);
        if (found !== status && !isModified) throw refusal(`Non-${status} order cannot be ${verb}`);
        change(tables, order, args);
        return order;
      },
    });
  };

  const reads = [
    showTool("get_order_details", ["order_id", "orders"], () => refusal("Order not found")),
    /** Looks up a product id; item ids are not product ids. */
    showTool("get_product_details", ["product_id", "products"], () => refusal("Product not found")),
    showTool("get_user_details", ["user_id", "users"], () => refusal("User not found")),
    defineTableTool({
      name: "list_all_product_types",
      parameters: [],
      run: (tables) => {
        const types = Array.from(tables.records("products"), ([, product]): [string, JsonValue] => [
          textField(product, "name"),
          field(product, "product_id"),
        ]);
        return dumpJson(new Map(types), { ensureAscii: true, sortKeys: true });
      },
    }),
    defineTableTool({
      name: "find_user_id_by_email",
      parameters: ["email"],
      run: ({ base }, { email }) => {
        const id = userIndex(base).byEmail.get(lower(email));
        if (id === undefined) throw refusal("User not found");
        return id;
      },
    }),
    defineTableTool({
      name: "find_user_id_by_name_zip",
      parameters: ["first_name", "last_name", "zip"],
      run: (tables, { first_name, last_name, zip }) => {
        // The last name, and so its type, is checked only if a first name matches.
        for (const { id, lastName } of userIndex(tables.base).byFirstName.get(lower(first_name)) ?? []) {
          if (lastName !== lower(last_name)) continue;
          if (pythonEquals(field(objectField(tables.read("users", id)!, "address"), "zip"), zip)) return id;
        }
        throw refusal("User not found");
      },
    }),
  ];

  const writes = [
    /**
     * Refunds every entry of the payment history, refunds included: after a change of payment these
     * are three entries. Gift cards are credited at once, unlike after a return, which is only
     * recorded.
     */
    orderTool({
      name: "cancel_pending_order",
      status: "pending",
      verb: "cancelled",
      parameters: ["reason"],
      change: (tables, order, { reason }) => {
        if (!reference.isReason(reason, ["no longer needed", "ordered by mistake"])) throw refusal("Invalid reason");
        const refunds = objectsField(order.record, "payment_history").map((payment) => {
          const id = textField(payment, "payment_method_id");
          const amount = field(payment, "amount");
          refund(tables, order, { id, amount });
          return historyEntry("refund", amount, id);
        });
        const edited = tables.edit("orders", order.id).set("status", "cancelled").set("cancel_reason", reason);
        objectsField(edited, "payment_history").push(...refunds);
      },
    }),
    orderTool({
      name: "modify_pending_order_address",
      status: "pending",
      verb: "modified",
      takesModified: true,
      parameters: addressParts,
      change: (tables, order, args) => {
        const address = addressOf(args);
        tables.edit("orders", order.id).set("address", address);
      },
    }),
    /** Changes the address of a user; orders keep theirs. */
    defineTableTool({
      name: "modify_user_address",
      parameters: ["user_id", ...addressParts],
      run: (tables, args) => {
        const user = findUser(tables, args.user_id);
        const address = addressOf(args);
        tables.edit("users", user.id).set("address", address);
        return user;
      },
    }),
    /** Pays a pending order with another method and refunds the first one. Works once per order. */
    orderTool({
      name: "modify_pending_order_payment",
      status: "pending",
      verb: "modified",
      takesModified: true,
      parameters: ["payment_method_id"],
      change: (tables, order, { payment_method_id }) => {
        const method = findMethod(tables, order, payment_method_id);
        const [first, ...others] = objectsField(order.record, "payment_history");
        if (first === undefined || others.length > 0 || field(first, "transaction_type") !== "payment") {
          throw refusal("There should be exactly one payment for a pending order");
        }
        const id = textField(first, "payment_method_id");
        if (pythonEquals(id, payment_method_id)) {
          throw refusal("The new payment method should be different from the current one");
        }
        const amount = field(first, "amount");
        requireBalance(method, amount, "order");
        objectsField(tables.edit("orders", order.id), "payment_history").push(
          historyEntry("payment", amount, payment_method_id),
          historyEntry("refund", amount, id),
        );
        charge(tables, order, { method, id: payment_method_id, amount });
        refund(tables, order, { id, amount });
      },
    }),
    /** Replaces items of a pending order at once; the difference stays unrounded. */
    orderTool({
      name: "modify_pending_order_items",
      status: "pending",
      verb: "modified",
      parameters: ["item_ids", "new_item_ids", "payment_method_id"],
      change: (tables, order, { item_ids, new_item_ids, payment_method_id }) => {
        const swap = { items: item_ids, variants: new_item_ids, verb: "modified" } as const;
        const { pairs, difference, last } = pairItems(tables, order, swap);
        const method = findMethod(tables, order, payment_method_id);
        requireBalance(method, difference, "new item");
        const edited = tables.edit("orders", order.id);
        const type = pythonLess(0, difference) ? "payment" : "refund";
        const amount = difference instanceof JsonFloat ? new JsonFloat(Math.abs(difference.value)) : difference;
        objectsField(edited, "payment_history").push(historyEntry(type, amount, payment_method_id));
        charge(tables, order, { method, id: payment_method_id, amount: difference });
        for (const [itemId, newId] of pairs) {
          // The item is looked up for each pair: with pairs a to b and b to c, the second changes
          // the same line again.
          const item = itemOf(edited, itemId);
          const variant = reference.givesLastVariant ? last! : variantOf(tables, item, newId)!;
          item.set("item_id", newId).set("price", field(variant, "price")).set("options", field(variant, "options"));
        }
        edited.set("status", "pending (item modified)");
      },
    }),
    /**
     * Only records the request: no money moves, the items stay. The price difference is rounded
     * here, unlike above.
     */
    orderTool({
      name: "exchange_delivered_order_items",
      status: "delivered",
      verb: "exchanged",
      parameters: ["item_ids", "new_item_ids", "payment_method_id"],
      change: (tables, order, { item_ids, new_item_ids, payment_method_id }) => {
        const swap = pairItems(tables, order, { items: item_ids, variants: new_item_ids, verb: "exchanged" });
        const difference = pythonRound(swap.difference as number | bigint | JsonFloat, 2);
        requireBalance(findMethod(tables, order, payment_method_id), difference, "price difference");
        tables
          .edit("orders", order.id)
          .set("status", "exchange requested")
          .set("exchange_items", sortedStrings(item_ids))
          .set("exchange_new_items", sortedStrings(new_item_ids))
          .set("exchange_payment_method_id", payment_method_id)
          .set("exchange_price_difference", difference);
      },
    }),
    /** Only records the request. */
    orderTool({
      name: "return_delivered_order_items",
      status: "delivered",
      verb: "returned",
      parameters: ["item_ids", "payment_method_id"],
      change: (tables, order, { item_ids, payment_method_id }) => {
        const method = findMethod(tables, order, payment_method_id);
        const [first] = objectsField(order.record, "payment_history");
        const isOriginal = pythonEquals(first?.get("payment_method_id") ?? null, payment_method_id);
        if (!isOriginal && !reference.isGiftCard(payment_method_id as string, () => method)) {
          throw refusal(reference.wrongReturnMethod);
        }
        if (findMissingItem(order.record, item_ids) !== undefined) throw refusal("Some item not found");
        tables
          .edit("orders", order.id)
          .set("status", "return requested")
          .set("return_items", sortedStrings(item_ids))
          .set("return_payment_method_id", payment_method_id);
      },
    }),
  ];
  return { reads, writes };
}

const isGiftCard = (method: JsonObject): boolean => field(method, "source") === "gift_card";

/**
 * Changes the balance of the owner's gift card, and rounds it to cents: an int balance becomes a
 * float with the first float amount. A card of another user raises a KeyError.
 */
function changeBalance(
  tables: Tables,
  { record: order }: FoundRecord,
  methodId: string,
  change: (balance: JsonValue) => JsonValue,
): void {
  const user = tables.edit("users", textField(order, "user_id"));
  const card = objectField(objectField(user, "payment_methods"), methodId);
  const balance = change(field(card, "balance"));
  const isNumber = ["number", "bigint"].includes(typeof balance) || balance instanceof JsonFloat;
  card.set("balance", isNumber ? pythonRound(balance as number | bigint | JsonFloat, 2) : balance);
}

/** Takes an amount from a gift card; other methods are charged elsewhere. */
function charge(
  tables: Tables,
  order: FoundRecord,
  payment: { readonly method: JsonObject; readonly id: JsonValue; readonly amount: JsonValue },
): void {
  const { method, id, amount } = payment;
  if (!isGiftCard(method)) return;
  changeBalance(tables, order, id as string, (balance) => pythonSubtract(balance, amount, "-="));
}

/**
 * The first id that is requested more often than the order contains it; `undefined` if all are
 * available.
 */
function findMissingItem(order: JsonObject, itemIds: JsonValue): JsonValue | undefined {
  const ordered = objectsField(order, "items").map((item) => field(item, "item_id"));
  return iterate(itemIds).find((id) => countOf(itemIds, id) > countOf(ordered, id));
}

// An index of users, which avoids a search through all of them: no tool changes a name or an e-mail
// address, nor adds a user, so one index over the shared base serves every episode. The zip code,
// which tools do change, is read from the episode's tables.

type UserIndex = {
  /** First user with an e-mail address, by its lower-case form. */
  readonly byEmail: ReadonlyMap<string, string>;
  /**
   * Users with a first name, by its lower-case form, in file order, each with the lower-case last
   * name.
   */
  readonly byFirstName: ReadonlyMap<string, readonly { readonly id: string; readonly lastName: string }[]>;
};

const indexes = new WeakMap<SharedTables, UserIndex>();

function userIndex(base: SharedTables): UserIndex {
  return remembered(indexes, base, () => {
    const byEmail = new Map<string, string>();
    const byFirstName = new Map<string, { readonly id: string; readonly lastName: string }[]>();
    for (const [id, user] of base.table("users")) {
      const email = pythonLower(textField(user, "email"));
      if (!byEmail.has(email)) byEmail.set(email, id);
      const name = objectField(user, "name");
      const namesakes = remembered(byFirstName, pythonLower(textField(name, "first_name")), () => []);
      namesakes.push({ id, lastName: pythonLower(textField(name, "last_name")) });
    }
    return { byEmail, byFirstName };
  });
}
