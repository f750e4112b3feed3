import { asKey } from "../fields.ts";
import { defineTool } from "../tool.ts";

/** A user's record as JSON. */
export const getUserDetails = defineTool({
  name: "get_user_details",
  parameters: ["user_id"],
  run: (world, { user_id }) => {
    const id = asKey(user_id);
    if (id === null || world.read("users", id) === undefined) return "Error: user not found";
    return world.json("users", id);
  },
});
