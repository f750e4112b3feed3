// Finding users without walking through all of them. No tool changes a name or an e-mail address, nor adds a user, so one
// index over the shared base serves every episode; what tools do change (the zip code) is read from the episode's world.

import { pythonLower } from "../../../python-semantics/index.ts";
import { objectField, textField } from "../fields.ts";
import type { SharedBase } from "../shared-base.ts";

export type UserIndex = {
  /** First user of a lower-case address. */
  readonly byEmail: ReadonlyMap<string, string>;
  /** Users of a lower-case first name, in file order, each with the lower-case last name. */
  readonly byFirstName: ReadonlyMap<string, readonly { readonly id: string; readonly lastName: string }[]>;
};

const indexes = new WeakMap<SharedBase, UserIndex>();

export function userIndex(base: SharedBase): UserIndex {
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
