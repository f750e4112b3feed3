// The shapes in which vLLM says no: flat in old servers, nested under "error" in new ones, and a bare string for keys.

import type { WholeAnswer } from "../front/answer-writer.ts";
import type { VllmProtocol } from "./protocol.ts";

const types: Readonly<Record<number, string>> = {
  400: "BadRequestError",
  403: "PermissionDeniedError",
  404: "NotFoundError",
  405: "MethodNotAllowed",
  500: "InternalServerError",
  503: "ServiceUnavailableError",
};

/** The name and, where errors repeat it, the value that the request had. */
export type Parameter = { readonly name: string; readonly value: string | null };

/** An answer other than 200. `message` is what the server says. */
export class VllmRefusal extends Error {
  readonly status: number;
  readonly #parameter: Parameter | null;

  /** `parameter`: which one is wrong. */
  constructor(status: number, message: string, parameter: Parameter | null = null) {
    super(message);
    this.name = "VllmRefusal";
    this.status = status;
    this.#parameter = parameter;
  }

  /** As it stands in a body, or in a chunk of a stream. */
  toBody(protocol: VllmProtocol): unknown {
    const { status } = this;
    if (status === 401) return { error: this.message };
    if (this.message === "Not Found" && protocol.notFound === "detail") return { detail: this.message };
    const parameter = protocol.namesParameter ? this.#parameter : null;
    const { name = null, value = null } = parameter ?? {};
    const message = value === null ? this.message : `${this.message} (parameter=${name}, value=${value})`;
    const fields = { message, type: types[status] ?? "Error", param: name, code: status };
    return protocol.errors === "nested" ? { error: fields } : { object: "error", ...fields };
  }

  toAnswer(protocol: VllmProtocol): WholeAnswer {
    const headers = { "content-type": "application/json" };
    return { status: this.status, headers, text: JSON.stringify(this.toBody(protocol)), share: 1 };
  }
}
