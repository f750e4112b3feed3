// Applies a Node transform stream to an async iterable.

import { pipeline, Readable, type Transform } from "node:stream";

/**
 * Rejects like `chunks`, or with the transform's own error. If the consumer stops reading, both
 * end.
 */
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
  // The loop below reports any error of the pipeline.
  pipeline(Readable.from(source, { objectMode: false }), transform, () => undefined);
  try {
    yield* transform as AsyncIterable<Uint8Array>;
  } catch (error) {
    // The transform would report a failure of its source as a premature end.
    throw fault ?? error;
  }
}
