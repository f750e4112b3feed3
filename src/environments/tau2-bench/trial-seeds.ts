// The seeds that the reference gives to repeated trials, drawn by CPython's generator, so that a
// trial has the same seed here.

/** The seed of each trial of a run, as CPython's `random.seed(seed)` and `randint(0, 1000000)` draw them. */
export function trialSeeds(seed: number, trials: number): number[] {
  const next = mersenneTwister(seed);
  const most = 1_000_000;
  return Array.from({ length: trials }, () => {
    // Takes as many bits as the largest value has, and draws again until the value fits.
    for (;;) {
      const drawn = next() >>> 12;
      if (drawn <= most) return drawn;
    }
  });
}

const size = 624;

/** 32-bit words from MT19937 (Matsumoto and Nishimura 1998), seeded by an array as in CPython. */
function mersenneTwister(seed: number): () => number {
  const state = new Uint32Array(size);
  const mix = (index: number): number => {
    const previous = state[index - 1]!;
    return previous ^ (previous >>> 30);
  };
  state[0] = 19650218;
  for (let index = 1; index < size; index++) state[index] = Math.imul(1812433253, mix(index)) + index;
  const magnitude = BigInt(Math.abs(seed));
  const key: number[] = [];
  for (let rest = magnitude; rest > 0n || key.length === 0; rest >>= 32n) key.push(Number(rest & 0xffffffffn));
  let index = 1;
  const advance = (): void => {
    if (++index < size) return;
    state[0] = state[size - 1]!;
    index = 1;
  };
  for (let count = 0; count < Math.max(size, key.length); count++) {
    const at = count % key.length;
    state[index] = (state[index]! ^ Math.imul(mix(index), 1664525)) + key[at]! + at;
    advance();
  }
  for (let count = 0; count < size - 1; count++) {
    state[index] = (state[index]! ^ Math.imul(mix(index), 1566083941)) - index;
    advance();
  }
  state[0] = 0x80000000;
  let drawn = size;
  return () => {
    if (drawn === size) {
      for (let at = 0; at < size; at++) {
        const bits = (state[at]! & 0x80000000) | (state[(at + 1) % size]! & 0x7fffffff);
        state[at] = state[(at + 397) % size]! ^ (bits >>> 1) ^ (bits & 1 ? 0x9908b0df : 0);
      }
      drawn = 0;
    }
    let word = state[drawn++]!;
    word ^= word >>> 11;
    word ^= (word << 7) & 0x9d2c5680;
    word ^= (word << 15) & 0xefc60000;
    return (word ^ (word >>> 18)) >>> 0;
  };
}
