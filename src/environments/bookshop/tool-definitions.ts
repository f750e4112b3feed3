// The tools as the policy sees them. Terse: their JSON stands in every prompt.

import { type Tool, toolFromDefinition } from "../../core/message.ts";
import { fromPlain } from "../../python-semantics/json/index.ts";

/** In the order in which prompts show them. */
export const tools: readonly Tool[] = [
  tool("look_up", "Read a member, order, book or card.", { id: "string" }),
  tool("cancel_order", "Cancel a whole order.", { order_id: "string" }),
  tool("change_address", "Send an order elsewhere.", { order_id: "string", address: "string" }),
  tool("return_book", "Take back a book.", { order_id: "string", book_id: "string" }),
  tool("swap_book", "Swap a book for another edition.", {
    order_id: "string",
    book_id: "string",
    new_book_id: "string",
  }),
  tool("top_up_card", "Put dollars on a card.", { card_id: "string", amount: "integer" }),
  tool("decline", "Note that a rule forbids a request.", { id: "string", rule: "integer" }),
  tool("hand_over", "Leave a member to the owner. Ends the chat.", { member_id: "string" }),
];

function tool(name: string, description: string, types: Readonly<Record<string, "string" | "integer">>): Tool {
  const properties = Object.fromEntries(Object.entries(types).map(([key, type]) => [key, { type }]));
  const parameters = { type: "object", properties, required: Object.keys(types) };
  const definition = fromPlain({ type: "function", function: { name, description, parameters } });
  if (!(definition instanceof Map))
    throw new TypeError(`Cannot define tool "${name}": its definition is not an object.`);
  return toolFromDefinition(definition);
}
