// The body of a request as JSON, with every bound that a hostile client would try: size while it comes, type, syntax.

import { ServiceRefusal } from "./service-refusal.ts";

/** Throws a `ServiceRefusal`. The type must be JSON: a web page of another origin cannot send that unasked. */
export async function readJson(request: Request, maxBytes: number): Promise<unknown> {
  const type = request.headers.get("content-type")?.split(";", 1)[0]?.trim().toLowerCase();
  if (type !== "application/json") {
    throw new ServiceRefusal(
      "unsupported-media-type",
      `Cannot read the request: its content-type is ${type === undefined || type === "" ? "missing" : JSON.stringify(type.slice(0, 60))}; send application/json.`,
    );
  }
  const bytes = await readBytes(request, maxBytes);
  try {
    return JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes)) as unknown;
  } catch {
    throw new ServiceRefusal("bad-request", "Cannot read the request: its body is not JSON.");
  }
}

async function readBytes(request: Request, maxBytes: number): Promise<Uint8Array> {
  const tooLarge = (): ServiceRefusal =>
    new ServiceRefusal("too-large", `Cannot read the request: its body has more than ${maxBytes} bytes.`);
  if (Number(request.headers.get("content-length") ?? 0) > maxBytes) throw tooLarge();
  const parts: Uint8Array[] = [];
  let size = 0;
  if (request.body !== null) {
    const reader: ReadableStreamDefaultReader<Uint8Array> = request.body.getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      size += value.length;
      if (size > maxBytes) {
        await reader.cancel().catch(() => undefined);
        throw tooLarge();
      }
      parts.push(value);
    }
  }
  return Buffer.concat(parts);
}
