// A host and a port as people give them, as one address.

/** IPv6 with or without brackets. Checks nothing. */
export function httpAddress(host: string, port: number): string {
  return `http://${host.includes(":") && !host.startsWith("[") ? `[${host}]` : host}:${port}`;
}
