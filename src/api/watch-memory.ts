// Memory that the main thread shares with the thread that watches it: a few cells, and the name of
// the call in flight.

/** Cells of 32 bits. */
export const cell = Object.freeze({
  /** Odd while a call is in flight. */
  sequence: 0,
  /** Time limit of the call in flight, in milliseconds. */
  limitMs: 1,
  /** Counted up by a timer of the main thread. */
  heartbeat: 2,
  /** 1 while a debugger may hold the main thread. */
  isDebugged: 3,
  /** Length of the name in bytes. */
  labelLength: 4,
});

/** Offset of the name, in bytes; the size of the memory is in bytes as well. */
export const labelStart = 64;
export const memorySize = 4096;

export type WatchSetup = {
  readonly memory: SharedArrayBuffer;
  /** Longest time in which the main thread runs no timer while no call is in flight. */
  readonly loopLimitMs: number;
  /** The module as named on the command line. */
  readonly module: string;
  /** Beginning of the addresses of this package's own files. */
  readonly ownFiles: string;
  /** Ends the process when the main thread evaluates it. */
  readonly endExpression: string;
};
