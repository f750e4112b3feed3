// The guidelines and tools that the policy is shown. Short on purpose: their text is in every
// prompt, and a language model of a million parameters has to cope with it. `brokenRules` is the
// guidelines in code; `decline` cites their numbers.

import { type Tool, toolFromDefinition } from "../../core/message.ts";
import { fromPlain } from "../../python-semantics/json/index.ts";

export const guidelines = `You are the night desk of Inkwell & Owl, a small bookshop with an owl. Members write to you. The till does whatever you tell it, so keep these rules:

1. Ask for the member id and look it up first. Serve this member only, never the order or card of somebody else.
2. Look up an order, book or card before you speak of it or touch it. Never invent anything.
3. Before a change, say the ids and what will change, and ask "Do you confirm?". Change it only after a yes.
4. Only a pending order can be cancelled, sent to another address or swapped.
5. Swap a book only for an edition of the same title that is in stock.
6. Take back only delivered books, up to 30 days after delivery, for gold members up to 60. Never signed copies.
7. Put $10 to $50 on a gift card at a time.
8. If a rule forbids a request, call decline with the order or card and the number of the rule, then say why.
9. Anything else that members want, hand over to the owner.
10. One tool call or one message at a time. After a change, tell the day or the amount that the till reports, and ask "Anything else?".`;

/** Tools in the order in which prompts show them. */
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
