// The two look-ups of a customer. Both answer with the bare id.

import type { JsonValue } from "../../../python-semantics/json/index.ts";
import { pythonEquals, pythonLower } from "../../../python-semantics/index.ts";
import { attributeError, field, objectField } from "../fields.ts";
import { defineTool } from "../tool.ts";
import { userIndex } from "./user-index.ts";

const notFound = "Error: user not found";

export const findUserIdByEmail = defineTool({
  name: "find_user_id_by_email",
  parameters: ["email"],
  run: (world, { email }) => userIndex(world.base).byEmail.get(lower(email)) ?? notFound,
});

export const findUserIdByNameZip = defineTool({
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
});

function lower(value: JsonValue): string {
  if (typeof value === "string") return pythonLower(value);
  throw attributeError(value, "lower");
}
