// An offline run of Weights & Biases: one `.wandb` file that `wandb sync` uploads and `wandb leet`
// shows. It is implemented here because Node has no maintained client. The file has a W&B header,
// then blocks of LevelDB's log format with protocol-buffer records; it is read back by W&B's
// program in `npm run verify -- metrics` (0.31.0).

import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { crc32 } from "node:zlib";
import type { CurveRun, CurveSink, CurveSinkOptions } from "./curves.ts";
import { message, textField, varintField } from "./protobuf.ts";
import { openCurveFile } from "./tensorboard.ts";

/** `:W&B`, its magic number, the layout version. */
const fileHeader = Buffer.from([0x3a, 0x57, 0x26, 0x42, 0xe1, 0xbe, 0]);
const blockBytes = 32_768;
const chunkHeaderBytes = 7;
/** Type of a chunk: the whole record, or its first, middle or last part. */
const chunkTypes = { whole: 1, first: 2, middle: 3, last: 4 } as const;

/** Minimum version of the reading program, as in W&B's own runs since 0.17. */
const oldestReader = "0.70.0";

/**
 * A sink that writes `<folder>/offline-run-<time>-<id>/run-<id>.wandb`. Rejects if the file cannot
 * be created.
 */
export async function createWandb(
  folder: string,
  run: CurveRun,
  options: CurveSinkOptions & { readonly onFile?: (folder: string) => void } = {},
): Promise<CurveSink> {
  const { now = Date.now, onFault, onFile } = options;
  const begun = now();
  const id = randomBytes(4).toString("hex");
  const time = new Date(begun).toISOString().replaceAll(/[-:]/g, "").replace("T", "_").slice(0, 15);
  const place = join(folder, `offline-run-${time}-${id}`);
  const file = await openCurveFile(join(place, `run-${id}.wandb`), onFault);
  onFile?.(place);
  const records = recordWriter(file.write);
  const items = (number: number, values: readonly (readonly [string, unknown])[]): Buffer[] =>
    values.map(([key, value]) => message(number, textField(1, key), textField(16, jsonText(value))));
  records(message(21, message(1, textField(1, "trainable-agents"), textField(2, oldestReader))));
  records(
    message(
      17,
      ...[textField(1, id), textField(3, "trainable-agents")],
      message(4, ...items(1, Object.entries(run.configuration))),
      // Groups the processes of one run.
      ...[textField(6, run.id), textField(8, run.name)],
      message(17, varintField(1, Math.floor(begun / 1000))),
    ),
  );
  let last: readonly (readonly [string, unknown])[] = [];
  return {
    write: ({ step, time: at, scalars }) => {
      const own = [["_step", step], ["_timestamp", at / 1000], ["_runtime", (at - begun) / 1000]] as const; // prettier-ignore
      last = [...scalars, ...own];
      records(message(2, ...items(1, last), message(2, varintField(1, step))));
    },
    close: async () => {
      if (last.length > 0) records(message(3, ...items(1, last)));
      records(message(18, varintField(2, Math.floor((now() - begun) / 1000))));
      await file.close();
    },
  };
}

/** Numbers that JSON cannot represent are written as strings, as W&B does. */
function jsonText(value: unknown): string {
  return typeof value === "number" && !Number.isFinite(value)
    ? JSON.stringify(String(value))
    : (JSON.stringify(value) ?? "null");
}

/** Numbers records and splits them into chunks, none of which crosses a block. */
function recordWriter(write: (bytes: Uint8Array) => void): (record: Buffer) => void {
  let number = 0;
  let offset = fileHeader.length;
  write(fileHeader);
  return (fields) => {
    const record = Buffer.concat([varintField(1, number++), fields]);
    const parts: Buffer[] = [];
    let place = 0;
    do {
      const room = blockBytes - (offset % blockBytes);
      if (room < chunkHeaderBytes) {
        parts.push(Buffer.alloc(room));
        offset += room;
        continue;
      }
      const data = record.subarray(place, place + room - chunkHeaderBytes);
      const isFirst = place === 0;
      place += data.length;
      const isLast = place === record.length;
      const type = isFirst ? (isLast ? "whole" : "first") : isLast ? "last" : "middle";
      const head = Buffer.alloc(chunkHeaderBytes);
      head.writeUInt16LE(data.length, 4);
      head[6] = chunkTypes[type];
      // The format calls it crc32c, but it is a CRC-32.
      head.writeUInt32LE(crc32(Buffer.concat([head.subarray(6), data])), 0);
      parts.push(head, data);
      offset += chunkHeaderBytes + data.length;
    } while (place < record.length);
    write(Buffer.concat(parts));
  };
}
