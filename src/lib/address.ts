// Server addresses: joins a host and a port, and checks that an address or a request comes from
// this machine only.

/**
 * The access rule of our servers that require no token. False for a request that a page from
 * another server made a browser send: under a host name of another machine that its owner resolved
 * to this one, or from another origin. Another port of this machine is another origin, because a
 * different program may serve it. A browser runs on this machine but obeys pages, so requests from
 * pages are judged by their origin; other programs send none.
 */
export function isFromThisMachine(request: { readonly host: string | null; readonly origin: string | null }): boolean {
  const { host, origin } = request;
  const address = `http://${host ?? ""}`;
  const isLocal = URL.canParse(address) && isLoopback(new URL(address).hostname);
  return isLocal && (origin === null || isOwnOrigin({ host, origin }));
}

/** True for the origin of pages that the server itself sends: the host and port in the request. */
export function isOwnOrigin({ host, origin }: { readonly host: string | null; readonly origin: string }): boolean {
  const address = `http://${host ?? ""}`;
  if (!URL.canParse(address) || !/^https?:/i.test(origin) || !URL.canParse(origin)) return false;
  return new URL(origin).host === new URL(address).host;
}

/** Formats an address; IPv6 with or without brackets. Validates nothing. */
export function httpAddress(host: string, port: number): string {
  return `http://${host.includes(":") && !host.startsWith("[") ? `[${host}]` : host}:${port}`;
}

/**
 * Accepts a name or an address, IPv6 with or without brackets. Other names are not resolved, and
 * count as not loopback.
 */
export function isLoopback(host: string): boolean {
  return host === "localhost" || host === "::1" || host === "[::1]" || /^127(\.\d{1,3}){3}$/.test(host);
}

/**
 * The target of a request as an address of the server itself, where `//` begins a path; `null` if
 * it is invalid. A target may be a whole address, whose host is ignored here.
 */
export function requestAddress(target: string): URL | null {
  const address = target.startsWith("/") ? `http://server.invalid${target}` : target;
  return /^https?:\/\//i.test(address) && URL.canParse(address) ? new URL(address) : null;
}
