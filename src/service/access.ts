// Who may use the service: every program of this machine (`lib/is-from-this-machine.ts`), or whoever has the token.

import { createHash, timingSafeEqual } from "node:crypto";

/** True when no token is demanded or the header brings it; compared in constant time. */
export function isAllowed(authorization: string | null, token: string | null): boolean {
  if (token === null) return true;
  if (authorization === null) return false;
  const digest = (text: string): Buffer => createHash("sha256").update(text).digest();
  return timingSafeEqual(digest(authorization), digest(`Bearer ${token}`));
}
