// Who is asking a server of this machine: a program of it, or a page of strangers by way of a browser. A browser is a program
// of this machine that does what pages say, so pages count by where they come from.

import { isLoopback } from "./is-loopback.ts";

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
