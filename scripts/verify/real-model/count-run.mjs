// The record of a run with a real model, compared with the training rows that it gives.

/** @typedef {{ readonly text: string, readonly problems: readonly string[], readonly first: number, readonly followed: number, readonly wellFormed: number }} Counted */

/**
 * Reads the record of a run and the rows that it gives, and compares them token by token. `first`
 * counts episodes with a format error, `followed` those whose first error is followed by a turn, and
 * `wellFormed` those whose following turn is a call without an error.
 *
 * @param {string} out Run folder.
 * @returns {Promise<Counted>}
 */
export async function countRun(out) {
  const { readEpisodes } = await import("../../../dist/store/index.js");
  const { conservationViolations, episodeSamples } = await import("../../../dist/trajectories/index.js");
  /** @type {Record<string, number>} */
  const codes = {};
  /** @type {Record<string, number>} */
  const outcomes = {};
  /** @type {string[]} */
  const problems = [];
  let [passed, turns, sampled, trained, dropped, again, bare] = [0, 0, 0, 0, 0, 0, 0];
  let [first, followed, wellFormed] = [0, 0, 0];
  for await (const episode of readEpisodes(out)) {
    outcomes[episode.outcome] = (outcomes[episode.outcome] ?? 0) + 1;
    if (episode.failure !== null) problems.push(`episode ${episode.id} failed: ${episode.failure.message}`);
    if (episode.reward === 1) passed++;
    const result = episodeSamples(episode);
    problems.push(...conservationViolations(episode.trajectory, result));
    for (const { sampledTokens, logprobs } of episode.trajectory.turns) {
      turns++;
      sampled += sampledTokens.length;
      if (logprobs === null || logprobs.length !== sampledTokens.length) bare++;
    }
    for (const sample of result.samples) {
      if (sample.tokenAccounting !== "token-exact") again++;
      trained += sample.lossMask.reduce((sum, one) => sum + one, 0);
    }
    dropped += result.dropped.reduce((sum, { count }) => sum + count, 0);
    const decisions = episode.events.filter((event) => event.type === "decision");
    for (const { decision } of decisions)
      for (const { code } of decision.problems) codes[code] = (codes[code] ?? 0) + 1;
    const at = decisions.findIndex(({ decision }) => decision.problems.length > 0);
    if (at < 0) continue;
    first++;
    const next = decisions[at + 1];
    if (next === undefined) continue;
    followed++;
    if (next.decision.type === "call") wellFormed++;
  }
  if (bare > 0) problems.push(`${bare} turns have no logprobs`);
  if (again > 0) problems.push(`${again} rows are of text that was encoded again`);
  if (trained + dropped !== sampled)
    problems.push(`${sampled} tokens were sampled, ${trained} trained, ${dropped} dropped`);
  const text =
    `${listed(outcomes)}, ${passed} passed, ${turns} turns, ${sampled} tokens sampled, ${trained} in the loss once, ${dropped} dropped, ` +
    `${again} rows encoded again\nformat errors: ${listed(codes) || "none"}\n`;
  return { text, problems, first, followed, wellFormed };
}

/** @param {Readonly<Record<string, number>>} counts */
function listed(counts) {
  return Object.entries(counts)
    .map(([name, count]) => `${count} ${name}`)
    .join(", ");
}
