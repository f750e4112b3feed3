// The tools of the shop that only read. Users are found without walking through all of them: no tool changes a name or an e-mail
// address, nor adds a user, so one index over the shared base serves every episode; what tools do change (the zip code) is read
// from the episode's world.

import { compareCodePoints, pythonEquals, pythonLower } from "../../../python-semantics/index.ts";
import { dumpJson, type JsonValue } from "../../../python-semantics/json/index.ts";
import { showTool } from "../common/common-tools.ts";
import { attributeError, field, objectField, textField } from "../../tables/index.ts";
import { defineTool } from "../tool.ts";
import type { SharedBase } from "../world.ts";

const notFound = "Error: user not found";

/** By product id; the ids of items are not product ids. */
const getProductDetails = showTool("get_product_details", "product_id", "products", "Error: product not found");

export const lookUps = [
  showTool("get_order_details", "order_id", "orders", "Error: order not found"),
  getProductDetails,
  defineTool({
    name: "list_all_product_types",
    parameters: [],
    run: (world) => {
      const types = [...world.records("products")].map(([, product]) => {
        return [textField(product, "name"), field(product, "product_id")] as const;
      });
      const byName = [...new Map(types)].sort(([left], [right]) => compareCodePoints(left, right));
      return dumpJson(new Map(byName), { ensureAscii: true });
    },
  }),
  defineTool({
    name: "find_user_id_by_email",
    parameters: ["email"],
    run: (world, { email }) => userIndex(world.base).byEmail.get(lower(email)) ?? notFound,
  }),
  defineTool({
    name: "find_user_id_by_name_zip",
    parameters: ["first_name", "last_name", "zip"],
    run: (world, { first_name, last_name, zip }) => {
      // The last name is looked at only when a first name fits, and so is its type.
      for (const { id, lastName } of userIndex(world.base).byFirstName.get(lower(first_name)) ?? []) {
        if (lastName !== lower(last_name)) continue;
        if (pythonEquals(field(objectField(world.read("users", id)!, "address"), "zip"), zip)) return id;
      }
      return notFound;
    },
  }),
];

function lower(value: JsonValue): string {
  if (typeof value === "string") return pythonLower(value);
  throw attributeError(value, "lower");
}

type UserIndex = {
  /** First user of a lower-case address. */
  readonly byEmail: ReadonlyMap<string, string>;
  /** Users of a lower-case first name, in file order, each with the lower-case last name. */
  readonly byFirstName: ReadonlyMap<string, readonly { readonly id: string; readonly lastName: string }[]>;
};

const indexes = new WeakMap<SharedBase, UserIndex>();

function userIndex(base: SharedBase): UserIndex {
  let index = indexes.get(base);
  if (index === undefined) {
    index = makeIndex(base);
    indexes.set(base, index);
  }
  return index;
}

function makeIndex(base: SharedBase): UserIndex {
  const byEmail = new Map<string, string>();
  const byFirstName = new Map<string, { readonly id: string; readonly lastName: string }[]>();
  for (const [id, user] of base.table("users")) {
    const email = pythonLower(textField(user, "email"));
    if (!byEmail.has(email)) byEmail.set(email, id);
    const name = objectField(user, "name");
    const firstName = pythonLower(textField(name, "first_name"));
    const namesakes = byFirstName.get(firstName) ?? [];
    namesakes.push({ id, lastName: pythonLower(textField(name, "last_name")) });
    byFirstName.set(firstName, namesakes);
  }
  return { byEmail, byFirstName };
}
