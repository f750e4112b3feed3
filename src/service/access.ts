// Who may use the service: every program of this machine, or whoever has the token. A browser is a program of this machine
// that does what pages of strangers say, so pages count by where they come from.

import { createHash, timingSafeEqual } from "node:crypto";
import { isLoopback } from "../lib/is-loopback.ts";

/** True when no token is demanded or the header brings it; compared in constant time. */
export function isAllowed(authorization: string | null, token: string | null): boolean {
  if (token === null) return true;
  if (authorization === null) return false;
  const digest = (text: string): Buffer => createHash("sha256").update(text).digest();
  return timingSafeEqual(digest(authorization), digest(`Bearer ${token}`));
}

/**
 * False for a request that a page of another site sent: under its own name, which it had pointed at this machine, or from
 * its own origin. Requests without a body would otherwise need nobody's permission.
 */
export function isFromThisMachine(headers: Headers): boolean {
  const [host, origin] = [headers.get("host"), headers.get("origin")];
  return isLocalAddress(`http://${host ?? ""}`) && (origin === null || isLocalAddress(origin));
}

function isLocalAddress(address: string): boolean {
  return URL.canParse(address) && isLoopback(new URL(address).hostname);
}
