// JSON-RPC requests in MCP's form: their errors, and checked values of untrusted parameters.

/** An error for the client. `code`: the number in JSON-RPC and MCP. */
export class RpcError extends Error {
  readonly code: number;
  readonly data: unknown;

  constructor(code: number, message: string, data?: unknown) {
    super(message);
    this.code = code;
    this.data = data;
  }
}

export function stringOf(value: unknown, name: string): string {
  if (typeof value === "string") return value;
  throw new RpcError(-32602, `"${name}" is not a string.`);
}

export function wholeOf(value: unknown): number {
  if (Number.isSafeInteger(value) && (value as number) >= 0) return value as number;
  throw new RpcError(-32602, "A number is not a whole number of at least 0.");
}

export function asRecord(value: unknown): Readonly<Record<string, unknown>> | null {
  return typeof value === "object" && value !== null && !Array.isArray(value)
    ? (value as Readonly<Record<string, unknown>>)
    : null;
}

export function rpcError(id: string | number | null, code: number, message: string, data: unknown = null): object {
  return { jsonrpc: "2.0", id, error: { code, message, ...(data === null ? {} : { data }) } };
}
