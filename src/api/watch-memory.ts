// What the main thread and the thread that watches it share: a few cells, and the name of the call in flight.

/** Cells of 32 bits. */
export const cell = Object.freeze({
  /** Odd while a call is in flight. */
  sequence: 0,
  /** Of the call in flight, in milliseconds. */
  limitMs: 1,
  /** Counted up by a timer of the main thread. */
  heartbeat: 2,
  /** 1 while a debugger may hold the main thread. */
  isDebugged: 3,
  /** In bytes. */
  labelLength: 4,
});

/** In bytes, as are the others. */
export const labelStart = 64;
export const memorySize = 4096;

export type WatchSetup = {
  readonly memory: SharedArrayBuffer;
  /** How long the main thread may come to no timer, where no call is in flight. */
  readonly loopLimitMs: number;
  /** As the command line names it. */
  readonly module: string;
  /** Beginning of the addresses of this package's own files. */
  readonly ownFiles: string;
  /** Ends the process when the main thread evaluates it. */
  readonly endExpression: string;
};
