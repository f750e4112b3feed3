// Where the answer to a generation goes: into a `Response`, for requests without a socket, or straight to the socket, which
// costs half and can break off as a dying server does. Both give the same bytes.

import type { ServerResponse } from "node:http";
import { RESPONSE_ALREADY_SENT } from "@hono/node-server/utils/response";

export type WholeAnswer = {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly text: string;
  /** How much of its bytes is sent before the connection breaks: 1 sends all. */
  readonly share: number;
};

/** Takes one answer, whole or in pieces, and nothing after its end. */
export interface AnswerWriter {
  /** What the HTTP framework is to be given. Resolves as soon as it is known how the answer begins. */
  readonly response: Promise<Response>;
  whole(answer: WholeAnswer): void;
  /** A piece of a stream of server-sent events; the first begins it. */
  write(text: string): void;
  end(): void;
  /** Breaks the connection after what was written. Only once something was. */
  breakOff(): void;
}

const eventStream = { "content-type": "text/event-stream; charset=utf-8" };

/** `onLeave`: the client stopped reading. */
export function createResponseWriter(onLeave: () => void): AnswerWriter {
  let resolve!: (response: Response) => void;
  const response = new Promise<Response>((settle) => {
    resolve = settle;
  });
  let controller!: ReadableStreamDefaultController<Uint8Array>;
  let isOver = false;
  let isBroken = false;
  const body = new ReadableStream<Uint8Array>(
    {
      start: (given) => {
        controller = given;
      },
      // Only once all is read: an error at once would drop what is queued.
      pull: () => {
        if (isBroken) controller.error(new Error("The connection is broken on purpose."));
      },
      cancel: () => {
        isOver = true;
        onLeave();
      },
    },
    { highWaterMark: 0 },
  );
  let hasBegun = false;
  const send = (bytes: Uint8Array): void => {
    if (!isOver && bytes.length > 0) controller.enqueue(bytes);
  };
  const breakOff = (): void => {
    isOver = true;
    isBroken = true;
  };
  return {
    response,
    whole: ({ status, headers, text, share }) => {
      if (share >= 1) {
        resolve(new Response(text, { status, headers }));
        return;
      }
      const bytes = Buffer.from(text);
      resolve(new Response(body, { status, headers: { ...headers, "content-length": String(bytes.length) } }));
      send(bytes.subarray(0, Math.floor(bytes.length * share)));
      breakOff();
    },
    write: (text) => {
      // Once: a body that somebody has begun to read fits no second response.
      if (!hasBegun) resolve(new Response(body, { headers: eventStream }));
      hasBegun = true;
      send(Buffer.from(text));
    },
    end: () => {
      if (!isOver) controller.close();
      isOver = true;
    },
    breakOff,
  };
}

export function createSocketWriter(outgoing: ServerResponse): AnswerWriter {
  let isOver = false;
  // A connection that closes with bytes still to be written is the client's doing and no error of ours.
  outgoing.on("error", () => undefined);
  const breakOff = (bytes: Uint8Array = new Uint8Array(0)): void => {
    isOver = true;
    // The callback comes when everything before it has left.
    outgoing.write(bytes, () => outgoing.destroy());
  };
  return {
    response: Promise.resolve(RESPONSE_ALREADY_SENT),
    whole: ({ status, headers, text, share }) => {
      const bytes = Buffer.from(text);
      outgoing.writeHead(status, { ...headers, "content-length": bytes.length });
      if (share >= 1) outgoing.end(bytes);
      else breakOff(bytes.subarray(0, Math.floor(bytes.length * share)));
    },
    write: (text) => {
      if (isOver) return;
      if (!outgoing.headersSent) outgoing.writeHead(200, eventStream);
      outgoing.write(text);
    },
    end: () => {
      if (!isOver) outgoing.end();
      isOver = true;
    },
    breakOff,
  };
}
