// Memory of bodies, handed on from one conversation to the next. Not ordinary buffers: V8 counts those, and marks its whole heap
// for every 64 MB that are new, which thousands of conversations need every few seconds. It does not count memory that
// could be shared with other threads. Measured in `bench/concurrency.mjs`.

/** Smaller ones are not worth keeping. */
const least = 8192;
/** Of what lies ready and nobody uses. */
const mostIdleBytes = 64 * 2 ** 20;

/** By size. */
const idle = new Map<number, Buffer[]>();
let idleBytes = 0;

/** At least so many bytes, whatever they hold. */
export function takeMemory(bytes: number): Buffer {
  const size = sizeFor(bytes);
  const known = idle.get(size)?.pop();
  if (known === undefined) return Buffer.from(new SharedArrayBuffer(size));
  idleBytes -= size;
  return known;
}

/** Memory that `takeMemory` gave and nobody reads any more. */
export function giveMemoryBack(memory: Buffer): void {
  if (memory.length < least || idleBytes + memory.length > mostIdleBytes) return;
  const others = idle.get(memory.length);
  if (others === undefined) idle.set(memory.length, [memory]);
  else others.push(memory);
  idleBytes += memory.length;
}

/** Powers of two and what lies halfway between them, so that a third at most goes unused. */
function sizeFor(bytes: number): number {
  let size = least;
  while (size < bytes) size *= 2;
  const between = (size / 4) * 3;
  return between >= bytes && between > least ? between : size;
}
