// Credential of a request: the key of a session, or the token of the gateway. Clients send it in
// one of four headers, or in the query. Two different credentials are refused: either choice could route the
// request to a session that its sender did not mean.

import { GatewayError, type RequestHeaders } from "./request.ts";

/** Headers that carry the key: clients of OpenAI, of Anthropic, of OpenAI in Azure, and of Google. */
const carriers = ["authorization", "x-api-key", "api-key", "x-goog-api-key"] as const;

type Credential = {
  readonly carrier: (typeof carriers)[number] | "?key=";
  readonly text: string;
  /** False for an authorization scheme that has no key: its value is only compared. */
  readonly isKey: boolean;
};

/**
 * Credential in the headers and the query (`inQuery`); `null` if there is none, and an empty header counts as none. Throws a
 * `GatewayError` ("unauthorized") for different credentials, in two headers or in one header that
 * was sent twice; equal ones count once.
 */
export function credentialIn(headers: RequestHeaders, inQuery: string | null = null): string | null {
  const [first, ...others] = [
    ...carriers.flatMap((carrier) => credentialsOf(carrier, headers[carrier])),
    ...credentialsOf("?key=", inQuery ?? ""),
  ];
  if (first === undefined) return null;
  const other = others.find(({ text }) => text !== first.text);
  if (other === undefined) return first.isKey ? first.text : null;
  const places = other.carrier === first.carrier ? `"${first.carrier}" holds` : `"${first.carrier}" and "${other.carrier}" hold`; // prettier-ignore
  throw new GatewayError(
    "unauthorized",
    `Cannot serve the request: ${places} different credentials, but a request belongs to one session; send only one.`,
  );
}

function credentialsOf(carrier: Credential["carrier"], header: RequestHeaders[string]): Credential[] {
  const lines = typeof header === "string" ? [header] : (header ?? []);
  return lines
    .flatMap((line) => line.split(","))
    .map((value): Credential => {
      const bearer = carrier === "authorization" ? /^bearer(?:\s+(.*))?$/is.exec(value.trim()) : null;
      const isKey = carrier !== "authorization" || bearer !== null;
      return { carrier, isKey, text: bearer === null ? value.trim() : (bearer[1] ?? "").trim() };
    })
    .filter(({ text }) => text !== "");
}
