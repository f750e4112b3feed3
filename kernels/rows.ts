// Rows selected by an index, for embeddings and the positions of a loss. `size` counts floats, a
// multiple of 4.

/** target[i] = source[indices[i]]. */
export function gatherRows(source: usize, indices: usize, count: i32, size: i32, target: usize): void {
  const bytes = usize(size) << 2;
  for (let index = 0; index < count; index++, target += bytes) {
    memory.copy(target, source + usize(load<u32>(indices + (usize(index) << 2))) * bytes, bytes);
  }
}

/** target[indices[i]] += source[i], in order. */
export function scatterRows(source: usize, indices: usize, count: i32, size: i32, target: usize): void {
  const bytes = usize(size) << 2;
  for (let index = 0; index < count; index++) {
    const row = target + usize(load<u32>(indices + (usize(index) << 2))) * bytes;
    for (let at: usize = 0; at < bytes; at += 16, source += 16) {
      v128.store(row + at, f32x4.add(v128.load(row + at), v128.load(source)));
    }
  }
}
