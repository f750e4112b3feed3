// Addresses of servers: a host and a port as one address, and whether an address or a request is of this machine alone.

/**
 * False for a request that a page of another site sent: under its own name, which it had pointed at this machine, or from
 * its own origin. Requests without a body would otherwise need no permission. A browser is a program of
 * this machine that does what pages say, so pages count by where they come from.
 */
export function isFromThisMachine({
  host,
  origin,
}: {
  readonly host: string | null;
  readonly origin: string | null;
}): boolean {
  return isLocalAddress(`http://${host ?? ""}`) && (origin === null || isLocalAddress(origin));
}

function isLocalAddress(address: string): boolean {
  return URL.canParse(address) && isLoopback(new URL(address).hostname);
}

/** IPv6 with or without brackets. Checks nothing. */
export function httpAddress(host: string, port: number): string {
  return `http://${host.includes(":") && !host.startsWith("[") ? `[${host}]` : host}:${port}`;
}

/** Takes a name or an address, IPv6 with or without brackets. Other names are not looked up, and are not loopback. */
export function isLoopback(host: string): boolean {
  return host === "localhost" || host === "::1" || host === "[::1]" || /^127(\.\d{1,3}){3}$/.test(host);
}
