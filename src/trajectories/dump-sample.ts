import type { Sample } from "../core/turn.ts";

/**
 * A sample in columns: place, token id, loss mask (`1` trained, `s` sampled and masked, `.` observed), logprob, text. What a
 * failing test prints and what `inspect --tokens` shows.
 */
export function dumpSample(sample: Sample, decode: (ids: Uint32Array) => string): string {
  const rows: string[] = [];
  for (let at = 0; at < sample.tokens.length; at++) {
    const mask = sample.lossMask[at] === 1 ? "1" : sample.sampledMask[at] === 1 ? "s" : ".";
    const logprob = sample.logprobs?.[at];
    const score = logprob === undefined || Number.isNaN(logprob) ? "" : logprob.toFixed(4);
    const text = JSON.stringify(decode(sample.tokens.subarray(at, at + 1)));
    rows.push(
      `${String(at).padStart(6)} ${String(sample.tokens[at]).padStart(7)} ${mask} ${score.padStart(9)} ${text}`,
    );
  }
  return rows.join("\n");
}
