// Event files that TensorBoard reads, beside the run's own files: `tensorboard --logdir <run folder>`. Written in steps of
// ended episodes, behind the run; a file that cannot be written ends the curves and not the run.

import { createWriteStream } from "node:fs";
import { mkdir } from "node:fs/promises";
import { hostname } from "node:os";
import { join } from "node:path";
import { finished } from "node:stream/promises";
import { RunScalars } from "./run-scalars.ts";
import type { RunObserver } from "./run-observer.ts";
import { fileHead, scalarRecord } from "./tensorboard-events.ts";

export type TensorboardOptions = {
  /** A point of each curve every so many ended episodes. Default: 16. */
  readonly everyEpisodes?: number;
  /** Milliseconds since 1970. Default: `Date.now`. */
  readonly now?: () => number;
  /** Told once, with the reason, when the file cannot be written any more. */
  readonly onFault?: (message: string) => void;
};

/** An observer that writes `<folder>/events.out.tfevents.…`. Rejects when the file cannot be made. */
export async function createTensorboard(folder: string, options: TensorboardOptions = {}): Promise<RunObserver> {
  const { everyEpisodes = 16, now = Date.now, onFault } = options;
  if (!Number.isInteger(everyEpisodes) || everyEpisodes < 1) {
    throw new RangeError(
      `Cannot write event files: everyEpisodes is ${everyEpisodes}, wanted a whole number of at least 1.`,
    );
  }
  await mkdir(folder, { recursive: true });
  const begun = now();
  const name = `events.out.tfevents.${Math.floor(begun / 1000)}.${hostname()}.${process.pid}`;
  const file = createWriteStream(join(folder, name), { flags: "wx" });
  await new Promise<void>((resolve, reject) => {
    file.once("open", () => resolve());
    file.once("error", reject);
  });
  let isBroken = false;
  file.on("error", (error) => {
    if (!isBroken) onFault?.(`Cannot write ${name}: ${error.message}; the curves end here.`);
    isBroken = true;
  });
  file.write(fileHead(begun / 1000));
  const scalars = new RunScalars(now);
  const groups = { kept: 0, dropped: 0 };

  function write(): void {
    if (isBroken) return;
    file.write(
      scalarRecord({
        wallTime: now() / 1000,
        step: scalars.endedEpisodes,
        scalars: [...scalars.read(), ["groups/kept", groups.kept], ["groups/dropped", groups.dropped]],
      }),
    );
  }

  return {
    event(_episodeId, event) {
      scalars.add(event);
      if (event.type === "episode-end" && scalars.newEpisodes >= everyEpisodes) write();
    },
    recorded(_episodeId, event) {
      // Who was cancelled with the run goes on.
      if (event.type === "episode-end" && event.stopReason !== "cancelled") scalars.skip();
    },
    group: ({ decision }) => void (groups[decision] += 1),
    gauges: () => undefined,
    staleness: () => undefined,
    circuit: () => undefined,
    async close() {
      if (scalars.newEpisodes > 0) write();
      file.end();
      await finished(file).catch(() => undefined);
    },
  };
}
