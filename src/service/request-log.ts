// Accepted requests, on disk before they are acknowledged: after a restart the service still knows
// every request and resumes those without a result. The file has one JSON object per line and is
// only appended to; an incomplete last line is cut.

import { readFile } from "node:fs/promises";
import { z } from "zod";
import { faultAt } from "../core/index.ts";
import { systemCode } from "../lib/system-error.ts";
import { jsonOf } from "../lib/text.ts";
import type { TakenGroup } from "../rollout/index.ts";
import { AppendFile, Disk, storeFault } from "../store/index.ts";

const steerActions = ["pause", "continue", "drain", "cancel"] as const;
export type SteerAction = (typeof steerActions)[number];

/** Idempotency key of the client; `null` if it sent none. */
const idempotencyKey = z.string().nullable().default(null);

/** LoRA adapter of a group; absent for the engine's own. */
const adapter = z.string().optional();

const loggedRequest = z.discriminatedUnion("type", [
  z.object({
    type: z.literal("request"),
    groupId: z.string(),
    /** Number of the group, which the rows of its episodes contain. */
    groupIndex: z.number(),
    idempotencyKey,
    /** The accepted body. */
    body: z.unknown(),
    adapter,
  }),
  z.object({ type: z.literal("cancel"), groupId: z.string(), episodeIds: z.array(z.string()).readonly() }),
  /** Weights that a trainer has. Logs from before trainings had names have no `training`. */
  z.object({
    type: z.literal("weights"),
    version: z.string(),
    training: z.string().nullish(),
    /** Present if the version is the name of an adapter. */
    isAdapter: z.literal(true).optional(),
  }),
  z.object({
    type: z.literal("producer"),
    producerId: z.string(),
    idempotencyKey,
    body: z.unknown(),
    /** Weight version of the engine at the time of the request. */
    weightVersion: z.string().nullable(),
  }),
  /** A group of a producer, logged before its first episode runs; see `BegunGroup`. */
  z.object({
    type: z.literal("begin"),
    producerId: z.string(),
    /** Number of the group in the service. */
    groupIndex: z.number(),
    groupId: z.string(),
    taskIndex: z.number(),
    isRequeued: z.boolean(),
    version: z.number(),
    adapter,
  }),
  /** A batch, logged before it is handed over. */
  z.object({
    type: z.literal("batch"),
    producerId: z.string(),
    number: z.number(),
    groups: z.array(z.custom<TakenGroup>()).readonly(),
    /** True if the producer had no more groups. */
    isLast: z.boolean(),
  }),
  /** "lapse": the lease ran out; the next "continue" means that the trainer is back. */
  z.object({ type: z.literal("steer"), producerId: z.string(), action: z.enum([...steerActions, "lapse"]) }),
]);

export type LoggedRequest = z.infer<typeof loggedRequest>;
export type LoggedBegin = Extract<LoggedRequest, { readonly type: "begin" }>;

/** A log of requests. It does not guarantee that the last ones survive a power failure. */
export interface RequestLog {
  /**
   * Appends a request. Resolves once it has left the process. `waits`: true to wait until the disk
   * has space, for entries that no client waits for. Default: it is written at once, or the call
   * rejects and nothing is written.
   */
  append(request: LoggedRequest, options?: { readonly waits?: boolean }): Promise<void>;
  close(): Promise<void>;
}

/** A log without a file, for tests and for services that need not survive. */
export function memoryRequestLog(): RequestLog {
  return { append: async () => undefined, close: async () => undefined };
}

/**
 * Opens the file, reads its content, and appends to it. `disk`: the same as for the run store.
 * Rejects, attributed to boundary "store".
 */
export async function openRequestLog(
  path: string,
  disk = new Disk(path),
): Promise<{ readonly log: RequestLog; readonly earlier: readonly LoggedRequest[] }> {
  const bytes = await attributed(readFile(path).catch(ifAbsent), path);
  const size = bytes.lastIndexOf(0x0a) + 1;
  const earlier = bytes
    .toString("utf8", 0, size)
    .split("\n")
    .slice(0, -1)
    .map((line, index) => readLine(line, { path, index }));
  const file = await attributed(AppendFile.reopen(path, size, disk), path);
  return { log: new FileRequestLog(file, { path, disk }), earlier };
}

function ifAbsent(error: unknown): Buffer {
  if (systemCode(error) === "ENOENT") return Buffer.alloc(0);
  throw error;
}

type Entry = {
  readonly line: string;
  readonly waits: boolean;
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
};

/** A log in a file, with one write at a time, so that lines never mix. */
class FileRequestLog implements RequestLog {
  readonly #file: AppendFile;
  readonly #path: string;
  readonly #disk: Disk;
  readonly #unsubscribe: () => void;
  #waiting: Entry[] = [];
  #writing: Promise<void> | null = null;

  constructor(file: AppendFile, { path, disk }: { readonly path: string; readonly disk: Disk }) {
    this.#file = file;
    this.#path = path;
    this.#disk = disk;
    this.#unsubscribe = disk.subscribe(() => this.#refuseWaiting());
  }

  append(request: LoggedRequest, { waits = false }: { readonly waits?: boolean } = {}): Promise<void> {
    const appended = new Promise<void>((resolve, reject) => {
      this.#waiting.push({ line: `${JSON.stringify(request)}\n`, waits, resolve, reject });
    });
    this.#refuseWaiting();
    this.#writing ??= this.#write().finally(() => (this.#writing = null));
    return attributed(appended, this.#path);
  }

  async close(): Promise<void> {
    await this.#writing;
    this.#unsubscribe();
    await this.#file.close();
  }

  async #write(): Promise<void> {
    for (let entry = this.#waiting.shift(); entry !== undefined; entry = this.#waiting.shift()) {
      const { line, waits, resolve, reject } = entry;
      try {
        await (waits ? this.#file.append(line) : this.#file.appendOnce(line));
        resolve();
      } catch (error) {
        reject(error);
        // The fault ends once the file accepts a write again. If the probe fails, the next request
        // tries again.
        if (!waits) await this.#file.probe().catch(() => undefined);
      }
    }
  }

  /** Refuses waiting requests at once while the disk refuses writes. */
  #refuseWaiting(): void {
    const { fault } = this.#disk;
    if (fault === null) return;
    const refused = this.#waiting.filter(({ waits }) => !waits);
    this.#waiting = this.#waiting.filter(({ waits }) => waits);
    for (const { reject } of refused) reject(new Error(fault.message));
  }
}

function readLine(line: string, { path, index }: { readonly path: string; readonly index: number }): LoggedRequest {
  const read = loggedRequest.safeParse(jsonOf(line));
  if (read.success) return read.data;
  const message = `Cannot resume from ${path}: line ${index + 1} is not a request of this service; restore the file or start in a new folder.`;
  throw faultAt("store", "broken-line", message);
}

async function attributed<T>(work: Promise<T>, path: string): Promise<T> {
  try {
    return await work;
  } catch (error) {
    throw storeFault("keep requests", path, error);
  }
}
