// The shapes in which vLLM says no: flat in old servers, nested under "error" in new ones, and a bare string for keys.

import type { WholeAnswer } from "../front/answer-writer.ts";

export type ErrorStyle = "nested" | "flat";

const types: Readonly<Record<number, string>> = {
  400: "BadRequestError",
  404: "NotFoundError",
  405: "MethodNotAllowed",
  500: "InternalServerError",
  503: "ServiceUnavailableError",
};

/** An answer other than 200. `message` is what the server says. */
export class VllmRefusal extends Error {
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.name = "VllmRefusal";
    this.status = status;
  }

  /** As it stands in a body, or in a chunk of a stream. */
  toBody(style: ErrorStyle): unknown {
    const { status, message } = this;
    if (status === 401) return { error: message };
    const fields = { message, type: types[status] ?? "Error", param: null, code: status };
    return style === "nested" ? { error: fields } : { object: "error", ...fields };
  }

  toAnswer(style: ErrorStyle): WholeAnswer {
    const headers = { "content-type": "application/json" };
    return { status: this.status, headers, text: JSON.stringify(this.toBody(style)), share: 1 };
  }
}
