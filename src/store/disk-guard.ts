// Guards a server while its disk refuses writes: requests are refused, with the reason and when to
// retry. Work in flight continues without its client and is recorded once the disk has room.
// Waiting and writing belong to the store (`disk.ts`).

import type { Disk, DiskFault } from "./disk.ts";

/** Faults of the disk that end this soon are not reported to clients. */
const briefFaultMs = 200;

export class DiskGuard {
  readonly #disk: Disk | null;
  readonly #refusal: (fault: DiskFault) => Error;

  /**
   * A `disk` of `null` refuses nothing, so that calls wait for the store. `refusal`: error that a
   * client gets.
   */
  constructor(disk: Disk | null, refusal: (fault: DiskFault) => Error) {
    this.#disk = disk;
    this.#refusal = refusal;
  }

  /** True if the disk refused the last write. */
  get hasFault(): boolean {
    return this.#disk !== null && this.#disk.fault !== null;
  }

  /** The disk's current fault, after another attempt; `null` if there is none. */
  async fault(): Promise<DiskFault | null> {
    return this.#disk === null || !this.hasFault ? null : this.#disk.retry();
  }

  /** Throws the refusal while the disk refuses writes: work that cannot be recorded is not begun. */
  async check(): Promise<void> {
    const fault = await this.fault();
    if (fault !== null) throw this.#refusal(fault);
  }

  /**
   * Resolves like `work`. Rejects with the refusal once the disk refuses writes; `work` then
   * continues without its client, and `onLeft` is called.
   */
  recorded<T>(work: Promise<T>, onLeft: () => void = () => undefined): Promise<T> {
    const disk = this.#disk;
    if (disk === null) return work;
    return new Promise<T>((resolve, reject) => {
      let timer: NodeJS.Timeout | undefined;
      const leave = (): void => {
        if (disk.fault === null) return;
        onLeft();
        reject(this.#refusal(disk.fault));
      };
      const look = (): void => {
        clearTimeout(timer);
        if (disk.fault !== null) timer = setTimeout(leave, briefFaultMs);
      };
      const unsubscribe = disk.subscribe(look);
      look();
      const end = (): void => {
        unsubscribe();
        clearTimeout(timer);
      };
      work.finally(end).then(resolve, reject);
    });
  }
}
