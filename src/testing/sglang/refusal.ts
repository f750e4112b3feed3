// The shapes in which SGLang says no. Clients must read every one of them, so the front writes every one of them.

import type { WholeAnswer } from "../front/answer-writer.ts";
import type { SglangProtocol } from "./protocol.ts";

/** What refuses: inside an open stream each has its own way to say so. */
export type RefusalKind = "value" | "parameter" | "shape" | "scheduler" | "path" | "key" | "crash";

/** An answer other than 200. `message` is what the server says. */
export class Refusal extends Error {
  readonly kind: RefusalKind;
  readonly status: number;
  readonly #body: unknown;

  private constructor(kind: RefusalKind, message: string, answer: { readonly status: number; readonly body: unknown }) {
    super(message);
    this.name = "Refusal";
    this.kind = kind;
    this.status = answer.status;
    this.#body = answer.body;
  }

  /** A request that can be read but not served: values out of range, too long a prompt. */
  static ofValue(message: string): Refusal {
    return new Refusal("value", message, { status: 400, body: { error: { message } } });
  }

  /** A sampling parameter that is not known, or of another type; `toSpoken` says it as its version does. */
  static ofParameter(message: string): Refusal {
    return new Refusal("parameter", message, { status: 400, body: { error: message } });
  }

  /** A body that cannot be read: not JSON, or wrong types. `problem` as the validation library puts it. */
  static ofShape(field: string, problem: string): Refusal {
    const message = `1 validation error:\n  {'loc': ('body', '${field}'), 'msg': "${problem}"}`;
    return Refusal.#flat("shape", message, { code: 400, type: "Bad Request" });
  }

  /** The scheduler gave the request up. */
  static ofScheduler(status: number, message: string): Refusal {
    return Refusal.#flat("scheduler", message, { code: status, type: String(status) });
  }

  static notFound(style: SglangProtocol["notFound"]): Refusal {
    if (style === "flat") return Refusal.#flat("path", "Not Found", { code: 404, type: "Not Found" });
    return new Refusal("path", "Not Found", { status: 404, body: { detail: "Not Found" } });
  }

  static unauthorized(): Refusal {
    return new Refusal("key", "Unauthorized", { status: 401, body: { error: "Unauthorized" } });
  }

  static forbidden(): Refusal {
    return new Refusal("key", "Forbidden", { status: 403, body: { error: "Forbidden" } });
  }

  /** An exception that nobody caught. */
  static crash(): Refusal {
    return new Refusal("crash", "Internal Server Error", { status: 500, body: null });
  }

  /** The same refusal as this version of the server gives it. */
  toSpoken(protocol: SglangProtocol): Refusal {
    return this.kind === "parameter" && protocol.wrongParameter === "crash" ? Refusal.crash() : this;
  }

  toAnswer(): WholeAnswer {
    const { status, message } = this;
    if (this.#body === null) return { status, headers: { "content-type": "text/plain" }, text: message, share: 1 };
    return { status, headers: { "content-type": "application/json" }, text: JSON.stringify(this.#body), share: 1 };
  }

  toResponse(): Response {
    const { status, headers, text } = this.toAnswer();
    return new Response(text, { status, headers });
  }

  static #flat(kind: RefusalKind, message: string, fields: { readonly code: number; readonly type: string }): Refusal {
    const { code, type } = fields;
    return new Refusal(kind, message, { status: code, body: { object: "error", message, type, param: null, code } });
  }
}
