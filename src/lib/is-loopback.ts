// Whether an address is of this machine alone: what is served there, nobody else reaches.

/** Takes a name or an address, IPv6 with or without brackets. Other names are not looked up, and are not loopback. */
export function isLoopback(host: string): boolean {
  return host === "localhost" || host === "::1" || host === "[::1]" || /^127(\.\d{1,3}){3}$/.test(host);
}
