import type { ExportedGroup, LeftOut } from "../../export/index.ts";
import { formatCount } from "../display/terminal-text.ts";

/** What an export wrote and what it left out, and how that is told. */
export class ExportTotals {
  #rows = 0;
  #episodes = 0;
  #groups = 0;
  #trainedTokens: number | null = null;
  readonly #leftOut = new Map<string, LeftOut>();

  get rows(): number {
    return this.#rows;
  }

  add({ rows, episodes, trainedTokens, leftOut }: ExportedGroup): void {
    this.#rows += rows.length;
    this.#episodes += episodes;
    if (rows.length > 0) this.#groups++;
    if (trainedTokens !== null) this.#trainedTokens = (this.#trainedTokens ?? 0) + trainedTokens;
    for (const { reason, episodes: count, sampledTokens } of leftOut) {
      const before = this.#leftOut.get(reason) ?? { reason, episodes: 0, sampledTokens: 0 };
      this.#leftOut.set(reason, {
        reason,
        episodes: before.episodes + count,
        sampledTokens: before.sampledTokens + sampledTokens,
      });
    }
  }

  lines(format: string, written: { readonly file: string; readonly bytes: number }): string[] {
    const tokens = this.#trainedTokens === null ? "" : `, ${formatCount(this.#trainedTokens)} trained tokens`;
    const from = `${counted(this.#episodes, "episode")} of ${counted(this.#groups, "group")}${tokens}`;
    return [
      `${counted(this.#rows, "row")} for ${format} in ${written.file} (${formatBytes(written.bytes)}): ${from}`,
      ...this.leftOutLines(),
    ];
  }

  leftOutLines(): string[] {
    if (this.#leftOut.size === 0) return [];
    return [
      "Left out:",
      ...[...this.#leftOut.values()].map(
        ({ reason, episodes, sampledTokens }) =>
          `  ${counted(episodes, "episode")} (${formatCount(sampledTokens)} sampled tokens): ${reason}`,
      ),
    ];
  }
}

function counted(count: number, noun: string): string {
  return `${formatCount(count)} ${noun}${count === 1 ? "" : "s"}`;
}

function formatBytes(bytes: number): string {
  if (bytes < 1000) return `${bytes} bytes`;
  return bytes < 1e6 ? `${(bytes / 1e3).toFixed(1)} kB` : `${(bytes / 1e6).toFixed(1)} MB`;
}
