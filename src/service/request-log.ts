// What was asked of the service, on disk before it is acknowledged: after a restart the service knows every request again
// and goes on with those that have no result. One JSON object a line, only ever appended; a torn last line is cut.

import { type FileHandle, open } from "node:fs/promises";
import { AttributedError } from "../core/index.ts";
import type { BegunGroup, TakenGroup } from "../rollout/index.ts";

export type LoggedRequest = LoggedGroup | LoggedCancel | LoggedWeights | LoggedOfProducer;

type LoggedCancel = { readonly type: "cancel"; readonly groupId: string; readonly episodeIds: readonly string[] };
/** The trainer has these weights. Logs of before trainings had names have no `training`. */
type LoggedWeights = { readonly type: "weights"; readonly version: string; readonly training?: string | null };

export type LoggedOfProducer = LoggedProducer | LoggedBegin | LoggedBatch | LoggedSteer;

type LoggedProducer = {
  readonly type: "producer";
  readonly producerId: string;
  readonly idempotencyKey: string | null;
  readonly bodyHash: string;
  readonly body: unknown;
  /** What the engine had when it was asked for. */
  readonly weightVersion: string | null;
};

/** A group of a producer, before its first episode plays. */
type LoggedBegin = BegunGroup & {
  readonly type: "begin";
  readonly producerId: string;
  /** Number of the group in the service. */
  readonly groupIndex: number;
};

/** What is handed over, before it is. */
export type LoggedBatch = {
  readonly type: "batch";
  readonly producerId: string;
  readonly number: number;
  readonly groups: readonly TakenGroup[];
  /** The producer had no more. */
  readonly isLast: boolean;
};

export type SteerAction = "pause" | "continue" | "drain" | "cancel";
/** "lapse": its trainer was not heard; the next "continue" is its return. */
type LoggedSteer = { readonly type: "steer"; readonly producerId: string; readonly action: SteerAction | "lapse" };

type LoggedGroup = {
  readonly type: "request";
  readonly groupId: string;
  /** Number of the group; rows of its episodes carry it. */
  readonly groupIndex: number;
  /** Of the client; `null`: it gave none. */
  readonly idempotencyKey: string | null;
  /** Of the body: a key that comes again must come with the same. */
  readonly bodyHash: string;
  /** The body as it was accepted. */
  readonly body: unknown;
};

/** Keeps requests. Not promised: that the last ones survive a power cut. */
export interface RequestLog {
  /** Resolves once it has left the process. */
  append(request: LoggedRequest): Promise<void>;
  close(): Promise<void>;
}

/** A log that forgets: for tests and for services that need not survive. */
export function memoryRequestLog(): RequestLog {
  return { append: async () => undefined, close: async () => undefined };
}

/** Opens the file, reads what it holds, and appends from there. Rejects, attributed to boundary "store". */
export async function openRequestLog(
  path: string,
): Promise<{ readonly log: RequestLog; readonly earlier: readonly LoggedRequest[] }> {
  const file = await attributed(open(path, "a+"), path);
  try {
    const bytes = await attributed(file.readFile(), path);
    const size = bytes.lastIndexOf(0x0a) + 1;
    if (size < bytes.length) await attributed(file.truncate(size), path);
    const earlier = bytes
      .toString("utf8", 0, size)
      .split("\n")
      .slice(0, -1)
      .map((line, index) => readLine(line, { path, index }));
    return { log: appendTo(file, { path, size }), earlier };
  } catch (error) {
    await file.close();
    throw error;
  }
}

/** A log at the end of a file of `size` bytes, opened for appending. */
export function appendTo(
  file: Pick<FileHandle, "appendFile" | "truncate" | "close">,
  at: { readonly path: string; readonly size: number },
): RequestLog {
  let { size } = at;
  let isTorn = false;
  const write = async (line: Buffer): Promise<void> => {
    // What a failed write left would make one broken line with the next, and no later process could read the file.
    if (isTorn) await file.truncate(size);
    isTorn = true;
    await file.appendFile(line);
    isTorn = false;
    size += line.length;
  };
  // One write at a time, so that lines never mix.
  let last: Promise<unknown> = Promise.resolve();
  return {
    append(request) {
      const line = Buffer.from(`${JSON.stringify(request)}\n`);
      const written = last.then(() => attributed(write(line), at.path));
      last = written.catch(() => undefined);
      return written;
    },
    async close() {
      await last;
      await file.close();
    },
  };
}

function readLine(line: string, { path, index }: { readonly path: string; readonly index: number }): LoggedRequest {
  try {
    const value = JSON.parse(line) as (Partial<LoggedRequest> & Readonly<Record<string, unknown>>) | null;
    if (
      value?.type === "request" &&
      typeof value.groupId === "string" &&
      typeof value.groupIndex === "number" &&
      typeof value.bodyHash === "string"
    ) {
      return { ...value, idempotencyKey: value.idempotencyKey ?? null } as LoggedRequest;
    }
    if (value?.type === "cancel" && Array.isArray(value.episodeIds)) return value as LoggedRequest;
    if (value?.type === "weights" && typeof value.version === "string") return value as LoggedRequest;
    if (typeof value?.["producerId"] === "string" && isOfProducer(value)) return value;
  } catch {
    // Told below.
  }
  throw new AttributedError({
    boundary: "store",
    code: "broken-line",
    message: `Cannot go on with ${path}: line ${index + 1} is no request of this service; restore the file or begin in a new folder.`,
    retryable: false,
    cause: null,
  });
}

function isOfProducer(value: Readonly<Record<string, unknown>>): value is LoggedOfProducer {
  const has = (fields: Readonly<Record<string, "string" | "number" | "boolean">>): boolean =>
    Object.entries(fields).every(([name, type]) => typeof value[name] === type);
  switch (value["type"]) {
    case "producer":
      return has({ bodyHash: "string" }) && "body" in value && "weightVersion" in value;
    case "begin":
      return has({
        groupId: "string",
        groupIndex: "number",
        taskIndex: "number",
        isRequeued: "boolean",
        version: "number",
      });
    case "batch":
      return has({ number: "number", isLast: "boolean" }) && Array.isArray(value["groups"]);
    case "steer":
      return ["pause", "continue", "drain", "cancel", "lapse"].includes(String(value["action"]));
    default:
      return false;
  }
}

async function attributed<T>(work: Promise<T>, path: string): Promise<T> {
  try {
    return await work;
  } catch (error) {
    const cause = error instanceof Error ? error.message : String(error);
    throw new AttributedError(
      {
        boundary: "store",
        code: "request-log",
        message: `Cannot keep requests in ${path}: ${cause}.`,
        retryable: false,
        cause,
      },
      { cause: error },
    );
  }
}
