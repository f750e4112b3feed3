import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { Sample } from "../core/index.ts";
import {
  type AtroposRow,
  createJsonLinesFile,
  createParquetFile,
  type ExportFormat,
  exportFormats,
  exportGroup,
  type GroupToExport,
  type SftRow,
  type TinkerRow,
  toAtroposRow,
  toTinkerRow,
  toVerlRow,
  type VerifiersRow,
} from "./index.ts";
import { parseWhere } from "../store/index.ts";
import { randomEpisode, randomGroup } from "./random-episode.test-helper.ts";

const context = { decode: () => "", toolsOf: () => null, where: () => true };
const plain = { canBranch: false, canDrop: false } as const;

/** A group whose episodes have these rewards. */
function groupOf(rewards: readonly (number | null)[], changes: Partial<GroupToExport> = {}): GroupToExport {
  const group = randomGroup(5, { ...plain, size: rewards.length, reward: (at) => rewards[at] ?? null });
  return { ...group, ...changes };
}

function originOf(group: GroupToExport, at: number) {
  const { episode, result, index } = group.episodes[at]!;
  return { episode, index, groupIndex: 0, run: null, sampleCount: result.samples.length, groupMean: 0.5 };
}

describe("exportGroup()", () => {
  it("leaves out with a reason what has no reward, what is not asked for, and the rest of a dropped group", () => {
    const group = groupOf([1, null, 0, 0.5]);
    const where = parseWhere("reward > 0");
    const { rows, episodes, leftOut } = exportGroup(group, exportFormats.trl, { ...context, where });
    expect([rows.length, episodes]).toEqual([2, 2]);
    expect(leftOut.map(({ reason, episodes: count }) => [reason, count])).toEqual([
      ["it was not graded", 1],
      ["--where", 1],
    ]);
    const dropped = exportGroup({ ...group, decision: "dropped", reason: "too old" }, exportFormats.trl, context);
    const ungraded = { reason: "it was not graded", episodes: 1 };
    expect(dropped.leftOut).toMatchObject([{ reason: "its group was dropped: too old", episodes: 3 }, ungraded]);
    const open = exportGroup({ ...group, decision: "undecided" }, exportFormats.verl, context);
    expect(open.leftOut).toMatchObject([{ reason: "its group is not decided yet", episodes: 3 }, ungraded]);
    for (const name of ["sft", "sft-tokens", "preferences"] as const)
      expect(
        exportGroup({ ...group, decision: "dropped", reason: "too old" }, exportFormats[name], context).rows.length,
      ).toBeGreaterThan(0);
  });

  it("leaves out, by its name, a group that is not whole or of another size, where the trainer finds groups by position", () => {
    const whole = groupOf([1, 0, 0.5]);
    const size = (group: GroupToExport, groupSize: number | null): number =>
      exportGroup(group, exportFormats.trl, { ...context, groupSize }).rows.length;
    expect([size(whole, null), size(whole, 3), size(whole, 4)]).toEqual([3, 3, 0]);
    const name = whole.episodes[0]!.episode.groupId;
    const other = exportGroup(whole, exportFormats.trl, { ...context, groupSize: 4 });
    expect(other).toMatchObject({ episodes: 0, trainedTokens: null });
    expect(other.leftOut).toMatchObject([
      { reason: `its group "${name}" has 3 rows, but the groups before it have 4`, episodes: 3 },
    ]);
    const torn = exportGroup(groupOf([1, null, 0.5]), exportFormats.trl, { ...context, groupSize: null });
    expect(torn.leftOut.map(({ reason, episodes }) => [reason, episodes])).toEqual([
      ["it was not graded", 1],
      [expect.stringMatching(/^its group ".+" is incomplete: 2 rows for 3 episodes$/), 2],
    ]);
    // Trainers that group by name accept it unchanged.
    expect(exportGroup(whole, exportFormats.verl, { ...context, groupSize: 4 }).rows).toHaveLength(3);
  });

  it("leaves out failed and aborted episodes", () => {
    const group = groupOf([1, 1]);
    const episodes = group.episodes.map((one, at) => ({
      ...one,
      episode: { ...one.episode, reward: null, outcome: at === 0 ? ("failed" as const) : ("aborted" as const) },
    }));
    const { leftOut } = exportGroup({ ...group, episodes }, exportFormats.slime, context);
    expect(leftOut.map(({ reason }) => reason)).toEqual(["it was failed", "it was aborted"]);
  });

  it("takes what the run's fault policy took out of a group neither into rows nor into the group's mean", () => {
    const group = groupOf([1, 0, 0]);
    const episodes = group.episodes.map((one, at) => {
      if (at > 0) return one;
      const dropped = one.episode.trajectory.turns.map(({ index, sampledTokens }) => ({
        turn: index,
        count: sampledTokens.length,
        reason: "filtered" as const,
      }));
      return { ...one, result: { samples: [], dropped } };
    });
    for (const name of ["tinker", "sft"] as const) {
      const { rows, leftOut } = exportGroup({ ...group, episodes }, exportFormats[name], context);
      expect(rows.length).toBeGreaterThanOrEqual(2);
      expect(leftOut).toMatchObject([{ reason: "the run's fault policy took it out", episodes: 1 }]);
      if (name === "tinker")
        expect(rows.every(({ advantages }) => (advantages as number[]).every((one) => one === 0))).toBe(true);
    }
  });

  it("stops when a row holds more or fewer tokens than its episodes train", () => {
    const group = groupOf([1, 0]);
    const losing: ExportFormat = {
      ...exportFormats.trl,
      rowsOf: (episodes, more) =>
        exportFormats.trl.rowsOf(episodes, more).map(({ row, episodes: from }) => ({
          row: { ...row, env_mask: (row["env_mask"] as number[]).toSpliced(-1, 1, 0) },
          episodes: from,
        })),
    };
    const doubling: ExportFormat = {
      ...exportFormats.trl,
      rowsOf: (episodes, more) => [
        ...exportFormats.trl.rowsOf(episodes, more),
        ...exportFormats.trl.rowsOf(episodes, more),
      ],
    };
    const masked = groupOf([1, 0]);
    const last = masked.episodes[0]!.episode.trajectory.turns.at(-1)!;
    expect(last.sampledTokens.length).toBeGreaterThan(0);
    for (const format of [losing, doubling])
      expect(() => exportGroup(group, format, context)).toThrow(/tokens are trained or dropped, \d+ are to be/);
  });

  const rewarded = (group: GroupToExport): GroupToExport => ({
    ...group,
    episodes: group.episodes.map((one) => {
      const { grade, trajectory } = one.episode;
      const reward = trajectory.turns.length * 0.5;
      const given = {
        reward,
        metrics: {},
        log: "",
        info: new Map(),
        ...grade,
        turnRewards: trajectory.turns.map(() => 0.5),
      };
      return { ...one, episode: { ...one.episode, reward, grade: { ...given, reward } } };
    }),
  });

  it("puts what each turn earned where a format has a place, and refuses by name where it has none", () => {
    const group = rewarded(groupOf([1, 0.5]));
    const { turns } = group.episodes[0]!.episode.trajectory;
    const first = (name: keyof typeof exportFormats): unknown =>
      exportGroup(group, exportFormats[name], context).rows[0];
    const spans = turns.map(({ index }) => ({ turn: index, trained: true, reward: 0.5 }));
    expect(first("slime")).toMatchObject({ metadata: { turn_rewards: spans } });
    expect(first("verl")).toMatchObject({
      extra_fields: { turn_rewards: spans, turn_scores: turns.map(() => 0.5) },
    });
    // The score of the state after each turn; prime-rl uses the differences.
    const info = { turn_rewards: turns.map((_, turn) => (turn + 1) * 0.5) };
    expect(first("verifiers")).toMatchObject({ traces: [{ info }] });
    for (const name of ["atropos", "tinker", "trl", "sft", "sft-tokens", "preferences"] as const) {
      expect(() => first(name)).toThrow(
        `to ${name}: its turns have rewards of their own, and a row of ${name} has no place`,
      );
      expect(() => first(name)).toThrow("--turn-rewards ignore");
      const { rows } = exportGroup(group, exportFormats[name], { ...context, turnRewards: "ignore" });
      expect(rows.length).toBeGreaterThan(0);
      expect(JSON.stringify(rows)).not.toContain('"trained":');
    }
  });

  it("stops when an episode's own accounting lost a token", () => {
    const group = groupOf([1]);
    const [one] = group.episodes;
    const episodes = [
      { ...one!, result: { ...one!.result, dropped: [{ turn: 0, count: 1, reason: "too-long" as const }] } },
    ];
    expect(() => exportGroup({ ...group, episodes }, exportFormats.verl, context)).toThrow("This is a bug");
  });
});

describe("rows", () => {
  it("say how an episode's samples are weighed and where they come from", () => {
    const group = randomGroup(3, { canDrop: false, reward: () => 1 });
    const many = group.episodes.find(({ result }) => result.samples.length > 1)!;
    const rows = exportGroup({ ...group, run: "night" }, exportFormats.verl, context).rows;
    const own = rows.filter(({ extra_fields: facts }) => (facts as { rollout_id: number }).rollout_id === many.index);
    expect(own).toHaveLength(many.result.samples.length);
    for (const { extra_fields: facts } of own)
      expect(facts).toMatchObject({
        weight: 1 / many.result.samples.length,
        uid: "night/desk:train:3",
        group_id: "night/desk:train:3",
        episode_id: many.episode.id,
        run: "night",
        group_index: 4,
      });
  });

  it("carry the versions of weights, and verl's steps where versions are whole numbers", () => {
    const group = groupOf([1]);
    const [sample] = group.episodes[0]!.result.samples as [Sample];
    const length = sample.tokens.length;
    const sampledMask = new Uint8Array(length).fill(1, 1);
    const span = (start: number, end: number, dispatch: string | null, reply: string | null) => ({
      start,
      end,
      tokenCount: end - start,
      dispatch,
      reply,
    });
    const spanning = (weightRanges: Sample["weightRanges"]): Sample => ({
      ...sample,
      sampledMask,
      lossMask: sampledMask,
      logprobs: null,
      weightRanges,
    });
    const origin = originOf(group, 0);
    const facts = toVerlRow(spanning([span(1, 2, "3", "5"), span(2, length, "5", "7")]), origin).extra_fields;
    expect(facts).toMatchObject({ min_global_steps: 3, max_global_steps: 7 });
    expect(facts.weight_spans).toEqual([
      { start: 1, end: 2, dispatch: "3", reply: "5" },
      { start: 2, end: length, dispatch: "5", reply: "7" },
    ]);
    const unknown = toVerlRow(spanning([span(1, 2, "3", null), span(2, length, "sha-1", null)]), origin).extra_fields;
    expect(unknown).toMatchObject({ min_global_steps: null, max_global_steps: null });
  });

  it("of tinker have the reward less the mean of the group, counted by episodes, on trained tokens alone", () => {
    const rows = exportGroup(groupOf([1, 0, 0, null]), exportFormats.tinker, context).rows as unknown as TinkerRow[];
    for (const { advantages, mask, reward, model_input: input, target_tokens: targets } of rows) {
      expect(input.slice(1)).toEqual(targets.slice(0, -1));
      expect(advantages).toEqual(mask.map((one) => (one === 1 ? Math.fround(reward - 1 / 3) : 0)));
    }
    const group = groupOf([1]);
    const [sample] = group.episodes[0]!.result.samples as [Sample];
    const all = new Uint8Array(sample.tokens.length).fill(1);
    const range = { start: 0, end: all.length, tokenCount: all.length, dispatch: null, reply: null };
    const first: Sample = { ...sample, sampledMask: all, lossMask: all, logprobs: null, weightRanges: [range] };
    expect(() => toTinkerRow(first, originOf(group, 0))).toThrow("its first token is trained");
    expect(() => toTinkerRow({ ...sample, reward: null }, originOf(group, 0))).toThrow("no advantage");
  });

  it("of Atropos say -100 and 1.0 where nothing is trained", () => {
    const [row] = exportGroup(groupOf([1, 0]), exportFormats.atropos, context).rows as unknown as [AtroposRow];
    expect([row.scores, row.tokens.length]).toEqual([[1, 0], 2]);
    row.masks.forEach((mask, sample) =>
      mask.forEach((label, at) => {
        expect([-100, row.tokens[sample]![at]]).toContain(label);
        expect(row.inference_logprobs![sample]![at] === 1).toBe(label === -100);
      }),
    );
    expect(() => toAtroposRow([])).toThrow("no samples");
  });

  it("of verifiers are one tree, whose dead ends are left out", () => {
    for (let seed = 0; seed < 12; seed++) {
      const group = randomGroup(seed);
      for (const row of exportGroup(group, exportFormats.verifiers, context).rows as unknown as VerifiersRow[]) {
        const { nodes, info } = row.traces[0];
        for (const [at, { parent, mask, token_ids: tokens, logprobs, sampled, message }] of nodes.entries()) {
          expect(parent === null || parent < at).toBe(true);
          expect(mask).toHaveLength(tokens.length);
          expect([0, mask.filter(Boolean).length]).toContain(logprobs.length);
          expect(sampled).toBe(tokens.length > 0);
          if (sampled) expect(message.role).toBe("assistant");
        }
        const members = group.episodes.find(({ episode }) => episode.id === info.episode_id)!;
        const aborted = members.result.dropped.filter(({ reason }) => reason === "discarded-turn").length;
        const acted = nodes.filter(({ sampled }) => sampled).length;
        expect(acted).toBeLessThanOrEqual(members.episode.trajectory.turns.length - aborted);
      }
    }
  });

  it("of sft hold calls in their parts, and words as they were said", () => {
    const { episode, result } = randomEpisode(9, { ...plain, reward: () => 1 });
    const group: GroupToExport = { ...groupOf([]), episodes: [{ episode, result, index: 0 }] };
    const [row] = exportGroup(group, exportFormats.sft, { ...context, toolsOf: () => "[]" }).rows as unknown as [
      SftRow,
    ];
    expect(row.messages.map(({ role }) => role)).toEqual(episode.messages.map(({ role }) => role));
    const decisions = episode.events.filter((event) => event.type === "decision");
    const spoken = row.messages.filter(({ role }) => role === "assistant");
    expect(spoken).toHaveLength(decisions.length);
    for (const [at, { action, decision }] of decisions.entries()) {
      const { content, reasoning_content: reasoning, tool_calls: calls } = spoken[at]!;
      expect([content, reasoning]).toEqual([action.content, action.reasoning]);
      expect(calls?.[0]?.function.arguments ?? null).toBe(
        decision.type === "call" ? decision.call.argumentsText : null,
      );
    }
    for (const [at, { role, tool_call_id: id }] of row.messages.entries())
      if (role === "tool") expect(row.messages[at - 1]!.tool_calls![0]!.id).toBe(id);
  });

  it("of sft keep an action as it was sampled when its call was not carried out", () => {
    const { episode, result } = randomEpisode(9, { ...plain, reward: () => 1 });
    const events = episode.events.map((event) =>
      event.type === "decision"
        ? { ...event, decision: { type: "observe", problems: [], feedback: "no", call: null } as const }
        : event,
    );
    const group: GroupToExport = { ...groupOf([]), episodes: [{ episode: { ...episode, events }, result, index: 0 }] };
    const [row] = exportGroup(group, exportFormats.sft, context).rows as unknown as [SftRow];
    const texts = episode.events.flatMap((event) => (event.type === "decision" ? [event.action.text] : []));
    const spoken = row.messages.filter(({ role }) => role === "assistant");
    expect(spoken.every(({ tool_calls: calls }) => calls === null)).toBe(true);
    expect(spoken.map(({ content }) => content)).toEqual(texts);
  });

  it("of preferences pair the best and the worst of those that began alike", () => {
    const { rows, leftOut } = exportGroup(groupOf([0.5, 0, 1, 1, 0]), exportFormats.preferences, context);
    expect(rows).toHaveLength(1);
    expect(rows[0]).toMatchObject({
      score_chosen: 1,
      score_rejected: 0,
      metadata: { chosen_episode_id: "desk:train:3#2", rejected_episode_id: "desk:train:3#1", candidates: 5 },
    });
    expect(leftOut).toMatchObject([{ episodes: 3 }]);
    expect(exportGroup(groupOf([1, 1, 1]), exportFormats.preferences, context).rows).toEqual([]);
    const group = groupOf([1, 0]);
    const [first, second] = group.episodes;
    const [system, , ...rest] = second!.episode.messages;
    const messages = [system!, { role: "user", content: "other words" } as const, ...rest];
    const episodes = [first!, { ...second!, episode: { ...second!.episode, messages } }];
    expect(exportGroup({ ...group, episodes }, exportFormats.preferences, context).rows).toEqual([]);
  });
});

describe("files", () => {
  it("have their name only when they are whole", async () => {
    const folder = await mkdtemp(join(tmpdir(), "trainable-agents-export-"));
    const { columns } = exportFormats.trl;
    const { rows } = exportGroup(groupOf([1, 0]), exportFormats.trl, context);
    for (const create of [createJsonLinesFile, createParquetFile]) {
      const given_up = await create(join(folder, "a"), columns);
      await given_up.write(rows);
      expect(await readdir(folder)).toEqual(["a.part"]);
      await given_up.abandon();
      expect(await readdir(folder)).toEqual([]);
      const whole = await create(join(folder, "a"), columns);
      await whole.write(rows);
      expect(await whole.close()).toBeGreaterThan(100);
      expect(await readdir(folder)).toEqual(["a"]);
      await rm(join(folder, "a"));
    }
    await rm(folder, { recursive: true });
  });
});
