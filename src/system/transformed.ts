// What a transform stream of Node makes of an async iterable, as another one.

import { pipeline, Readable, type Transform } from "node:stream";

/** Rejects as `chunks` does, or with the transform's own error. Whoever stops reading ends both. */
export async function* transformed(
  chunks: AsyncIterable<Uint8Array>,
  transform: Transform,
): AsyncGenerator<Uint8Array> {
  let fault: unknown = null;
  const source = (async function* () {
    try {
      yield* chunks;
    } catch (error) {
      fault = error;
      throw error;
    }
  })();
  // Whatever ends it, the reading below says so.
  pipeline(Readable.from(source, { objectMode: false }), transform, () => undefined);
  try {
    yield* transform as AsyncIterable<Uint8Array>;
  } catch (error) {
    // The transform would report a failure of its source as a premature end.
    throw fault ?? error;
  }
}
