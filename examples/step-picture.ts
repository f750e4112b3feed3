// Not a program: the picture of docs/learning.md, which example 09 draws from its values: the
// reward of each episode of a group, the effect of the step on it, and the tokens of one episode
// that are in the loss.

export type PictureOptions = {
  /** One per episode: reward, advantage, and the logprob of all its actions before and after the step. */
  readonly episodes: readonly {
    readonly reward: number;
    readonly advantage: number;
    readonly before: number;
    readonly after: number;
  }[];
  /** Loss mask of one conversation, guidelines and tools excluded: 1 if a token is in the loss. */
  readonly mask: readonly number[];
};

const [width, rowHeight, perRow] = [760, 24, 72];
const [gain, loss, read] = ["#2b6ca3", "#b5532a", "#d5d5d5"];

export function stepPicture({ episodes, mask }: PictureOptions): string {
  const bottom = 50 + episodes.length * rowHeight;
  const rows = Math.ceil(mask.length / perRow);
  const height = bottom + 60 + rows * 12;
  const text = (x: number, y: number, words: string, anchor = "start"): string =>
    `<text x="${x}" y="${y}" text-anchor="${anchor}">${words}</text>`;
  /**
   * A bar that starts at the middle `x`, to the right for a rise, to the left for a fall; clipped
   * at 100.
   */
  const bar = (x: number, y: number, value: number, scale: number): string => {
    const length = Math.min(100, Math.abs(value) * scale);
    const from = value < 0 ? x - length : x;
    return `<rect x="${from.toFixed(1)}" y="${y}" width="${length.toFixed(1)}" height="12" fill="${value < 0 ? loss : gain}"/>`;
  };
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" font-family="sans-serif" font-size="12" fill="#333">`,
    `<rect width="100%" height="100%" fill="#fff"/>`,
    text(20, 28, "reward"),
    text(220, 28, "advantage", "middle"),
    text(570, 28, "change of the logprob of its actions", "middle"),
    ...episodes.flatMap(({ reward, advantage, before, after }, place) => {
      const y = 42 + place * rowHeight;
      return [
        text(20, y + 11, `#${place}   ${reward}`),
        bar(220, y, advantage, 50),
        text(340, y + 11, advantage.toFixed(3), "end"),
        bar(570, y, after - before, 100),
        text(740, y + 11, (after - before).toFixed(2), "end"),
      ];
    }),
    text(20, bottom + 24, "One conversation, token by token: blue was sampled and is in the loss, grey was read"),
    ...mask.map((one, at) => {
      const [x, y] = [20 + (at % perRow) * 10, bottom + 36 + Math.floor(at / perRow) * 12];
      return `<rect x="${x}" y="${y}" width="9" height="10" fill="${one === 1 ? gain : read}"/>`;
    }),
    "</svg>",
    "",
  ].join("\n");
}
