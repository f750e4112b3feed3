// Addresses of servers: a host and a port as one address, and whether an address or a request is of this machine alone.

/**
 * The rule of every server of ours that needs no token. False for a request that a page of another server made a browser send: under a
 * name that is not this machine's, which its owner had pointed here, or from another origin. Another port of this machine is another
 * origin: what is served there is not ours. A browser is a program of this machine that does what pages say, so pages count by where
 * they come from; other programs send no origin.
 */
export function isFromThisMachine(request: { readonly host: string | null; readonly origin: string | null }): boolean {
  const { host, origin } = request;
  const address = `http://${host ?? ""}`;
  const isLocal = URL.canParse(address) && isLoopback(new URL(address).hostname);
  return isLocal && (origin === null || isOwnOrigin({ host, origin }));
}

/** True for the origin of pages that the server itself sends: the host and port that the request names. */
export function isOwnOrigin({ host, origin }: { readonly host: string | null; readonly origin: string }): boolean {
  const address = `http://${host ?? ""}`;
  if (!URL.canParse(address) || !/^https?:/i.test(origin) || !URL.canParse(origin)) return false;
  return new URL(origin).host === new URL(address).host;
}

/** IPv6 with or without brackets. Checks nothing. */
export function httpAddress(host: string, port: number): string {
  return `http://${host.includes(":") && !host.startsWith("[") ? `[${host}]` : host}:${port}`;
}

/** Takes a name or an address, IPv6 with or without brackets. Other names are not looked up, and are not loopback. */
export function isLoopback(host: string): boolean {
  return host === "localhost" || host === "::1" || host === "[::1]" || /^127(\.\d{1,3}){3}$/.test(host);
}

/**
 * The target of a request as an address of the server itself, `//` as a path; `null`: it is none. Targets may be whole addresses, whose
 * host counts for nothing here.
 */
export function requestAddress(target: string): URL | null {
  const address = target.startsWith("/") ? `http://server.invalid${target}` : target;
  return /^https?:\/\//i.test(address) && URL.canParse(address) ? new URL(address) : null;
}
