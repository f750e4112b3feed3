// Accepted requests, on disk before they are acknowledged: after a restart the service knows every request again and resumes
// those without a result. One JSON object a line, only ever appended; a torn last line is cut.

import { type FileHandle, open } from "node:fs/promises";
import { z } from "zod";
import { AttributedError, faultAt, messageOf } from "../core/index.ts";
import type { TakenGroup } from "../rollout/index.ts";
import { jsonOf } from "../lib/text.ts";

const steerActions = ["pause", "continue", "drain", "cancel"] as const;
export type SteerAction = (typeof steerActions)[number];

/** Of the client; `null`: it gave none. */
const idempotencyKey = z.string().nullable().default(null);

const loggedRequest = z.discriminatedUnion("type", [
  z.object({
    type: z.literal("request"),
    groupId: z.string(),
    /** Number of the group; rows of its episodes carry it. */
    groupIndex: z.number(),
    idempotencyKey,
    /** The body as it was accepted. */
    body: z.unknown(),
  }),
  z.object({ type: z.literal("cancel"), groupId: z.string(), episodeIds: z.array(z.string()).readonly() }),
  /** The trainer has these weights. Logs from before trainings had names have no `training`. */
  z.object({ type: z.literal("weights"), version: z.string(), training: z.string().nullish() }),
  z.object({
    type: z.literal("producer"),
    producerId: z.string(),
    idempotencyKey,
    body: z.unknown(),
    /** Version that the engine had at the request. */
    weightVersion: z.string().nullable(),
  }),
  /** A group of a producer, before its first episode runs; see `BegunGroup`. */
  z.object({
    type: z.literal("begin"),
    producerId: z.string(),
    /** Number of the group in the service. */
    groupIndex: z.number(),
    groupId: z.string(),
    taskIndex: z.number(),
    isRequeued: z.boolean(),
    version: z.number(),
  }),
  /** A batch, before it is handed over. */
  z.object({
    type: z.literal("batch"),
    producerId: z.string(),
    number: z.number(),
    groups: z.array(z.custom<TakenGroup>()).readonly(),
    /** The producer had no more. */
    isLast: z.boolean(),
  }),
  /** "lapse": the lease ran out; the next "continue" is the return of the trainer. */
  z.object({ type: z.literal("steer"), producerId: z.string(), action: z.enum([...steerActions, "lapse"]) }),
]);

export type LoggedRequest = z.infer<typeof loggedRequest>;
export type LoggedBegin = Extract<LoggedRequest, { readonly type: "begin" }>;

/** Keeps requests. Not promised: that the last ones survive a power cut. */
export interface RequestLog {
  /** Resolves once it has left the process. */
  append(request: LoggedRequest): Promise<void>;
  close(): Promise<void>;
}

/** A log without a file: for tests and for services that need not survive. */
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
    // The remains of a failed write would make one broken line with the next, and no later process could read the file.
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
  const read = loggedRequest.safeParse(jsonOf(line));
  if (read.success) return read.data;
  const message = `Cannot resume from ${path}: line ${index + 1} is no request of this service; restore the file or begin in a new folder.`;
  throw faultAt("store", "broken-line", message);
}

async function attributed<T>(work: Promise<T>, path: string): Promise<T> {
  try {
    return await work;
  } catch (error) {
    const cause = messageOf(error);
    const message = `Cannot keep requests in ${path}: ${cause}.`;
    const failure = { boundary: "store", code: "request-log", message, retryable: false, cause } as const;
    throw new AttributedError(failure, { cause: error });
  }
}
