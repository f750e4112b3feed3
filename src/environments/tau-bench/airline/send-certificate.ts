// Compensation. Certificates are spent in `book-reservation.ts`.

import type { JsonValue } from "../../../python-semantics/json/index.ts";
import { pythonStr } from "../../../python-semantics/index.ts";
import { asKey, objectField } from "../fields.ts";
import { defineTool } from "../tool.ts";

const ids = ["certificate_3221322", "certificate_3221323", "certificate_3221324"];

/**
 * Gives a user a certificate of any amount, whatever its type. A fourth one is answered with None, which breaks the step
 * of the reference; a certificate that was spent frees its id.
 */
export const sendCertificate = defineTool({
  name: "send_certificate",
  parameters: ["user_id", "amount"],
  run: (world, { user_id, amount }) => {
    const userId = asKey(user_id);
    const user = userId === null ? undefined : world.read("users", userId);
    if (userId === null || user === undefined) return "Error: user not found";
    const id = ids.find((candidate) => !objectField(user, "payment_methods").has(candidate));
    if (id === undefined) return null;
    const certificate = new Map<string, JsonValue>([
      ["source", "certificate"],
      ["amount", amount],
      ["id", id],
    ]);
    objectField(world.edit("users", userId), "payment_methods").set(id, certificate);
    return `Certificate ${id} added to user ${userId} with amount ${pythonStr(amount)}.`;
  },
});
