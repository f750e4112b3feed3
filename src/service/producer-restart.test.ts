// Producers whose service dies: every group is handed over in one batch or dropped with a reason,
// no matter which process dies when, and synchronous training receives the same batches as from a
// service that never died.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { createRandom } from "../lib/random.ts";
import { type Disk, emptyDisk, type Life, live, type Write } from "./mortal-service.test-helper.ts";

const isFull = process.env["FULL"] === "1";

type Group = {
  readonly id: string;
  readonly staleness: number;
  readonly episodes: readonly { readonly id: string; readonly weight_versions: readonly (string | null)[] }[];
};
type Batch = {
  readonly status: string;
  readonly groups: readonly Group[];
  readonly producer: { readonly state: string };
};

const key = { "idempotency-key": "the training" };
const synchronous = { samples: 2, batch_groups: 2, max_staleness: 0, weight_version: "0", filters: ["zero-signal"] };

/**
 * State of a trainer that takes batches and reports weights, and repeats its request while the
 * service is away.
 */
type Training = { readonly batches: (Batch & { readonly version: number })[]; reported: number };

type Plan = {
  readonly body: unknown;
  readonly steps: number;
  /** Number of groups in a batch; default: the service's. */
  readonly groupsOf?: (number: number) => number;
  /** Number of weight versions that a batch produces; default: one. */
  readonly versionsOf?: (number: number) => number;
};

/** Trains until it has this many batches or the service has died. */
async function train(life: Life, training: Training, plan: Plan): Promise<void> {
  const { body, steps, groupsOf = () => null, versionsOf = () => 1 } = plan;
  const { sendJson, weights } = life;
  const { id } = await sendJson<{ id: string }>("/v1/producers", body, key);
  while (training.batches.length < steps) {
    const versions = training.batches.reduce((sum, _, number) => sum + versionsOf(number), 0);
    // A report without a response is repeated.
    while (training.reported < versions) {
      weights.version = String(training.reported + 1);
      await sendJson("/v1/weights", { version: weights.version });
      // Responses of a dead process are ignored.
      if (life.hasDied()) return;
      training.reported++;
    }
    const number = training.batches.length;
    const batch = await sendJson<Batch>(`/v1/producers/${id}/batches/${number}`, {
      groups: groupsOf(number),
      // A client that polls starts to wait again and again.
      wait_seconds: number % 2 === 0 ? 60 : 0.001,
    });
    if (life.hasDied()) return;
    if (batch.status === "waiting") continue;
    expect(batch.status).toBe("ready");
    training.batches.push({ ...batch, version: training.reported });
  }
}

/** Trains with a sequence of services on one disk that die as planned. */
async function trainThrough(
  diesAt: (write: Write, life: number) => "before" | "after" | null,
  plan: Plan & { readonly lives: number },
): Promise<{ readonly training: Training; readonly disk: Disk; readonly deaths: number }> {
  const disk = emptyDisk();
  const training: Training = { batches: [], reported: 0 };
  const weights = { version: "0" };
  let deaths = 0;
  for (;;) {
    const current = deaths;
    const life = await live(disk, {
      weights,
      diesAt: (write) => (current < plan.lives ? diesAt(write, current) : null),
    });
    const trained = train(life, training, plan).then(() => life.service.close({ wait: true }));
    const ending = await Promise.race([trained.then(() => "trained"), life.dead.then(() => "died")]);
    if (ending === "trained") return { training, disk, deaths };
    deaths++;
  }
}

/** Checks all invariants of a disk; they hold after any history. */
function checkDisk(disk: Disk, training: Training, maxStaleness: number): void {
  const begun = disk.log.flatMap((entry) => (entry.type === "begin" ? [entry] : []));
  const logged = disk.log.flatMap((entry) => (entry.type === "batch" ? [entry] : []));
  // Each number belongs to exactly one batch.
  expect(logged.map(({ number }) => number)).toEqual(logged.map((_, place) => place));
  const handedOver = logged.flatMap(({ groups }) => groups.map(({ groupId }) => groupId));
  expect(new Set(handedOver).size).toBe(handedOver.length);
  expect(new Set(begun.map(({ groupId }) => groupId)).size).toBe(begun.length);
  expect(new Set(begun.map(({ groupIndex }) => groupIndex)).size).toBe(begun.length);
  // Groups that were handed over are kept, with rows; all other decided groups are dropped with a
  // reason, without rows.
  for (const [groupId, { decision, reason, episodeIds }] of disk.records) {
    expect(decision === "kept").toBe(handedOver.includes(groupId));
    expect(reason === null).toBe(decision === "kept");
    expect(disk.rows.get(groupId)?.length ?? 0).toBe(decision === "kept" ? episodeIds.length : 0);
    for (const id of episodeIds) expect(disk.kept.has(id)).toBe(true);
  }
  for (const groupId of handedOver) expect(disk.records.has(groupId)).toBe(true);
  // The trainer received exactly the logged groups, and none exceeds the maximum staleness.
  for (const [number, { groups, version }] of training.batches.entries()) {
    expect(groups.map(({ id, staleness }) => ({ groupId: id, staleness }))).toEqual(logged[number]?.groups);
    for (const { staleness, episodes } of groups) {
      const versions = episodes.flatMap(({ weight_versions: all }) => all.map(Number));
      const age = version - Math.min(version, ...versions);
      // Tokens of weights that the engine had before they were reported count as older than they
      // are.
      expect(staleness).toBeGreaterThanOrEqual(age);
      expect(staleness).toBeLessThanOrEqual(maxStaleness);
    }
  }
}

const tokensOf = (disk: Disk, { batches }: Training) =>
  batches.map(({ groups }) =>
    groups.map(({ id, episodes }) => [id, episodes.map((episode) => disk.kept.get(episode.id)?.trajectory)]),
  );

describe("a service that dies", () => {
  const world = { body: synchronous, steps: 3 };

  test("at any line of its log or its store, before it or behind: the batches are those of one that lives", async () => {
    let writes = 0;
    const alone = await trainThrough(() => (writes++, null), { ...world, lives: 1 });
    checkDisk(alone.disk, alone.training, 0);
    const expected = tokensOf(alone.disk, alone.training);
    const kinds = new Set<string>();
    const every = isFull ? 1 : 29;
    for (let at = 0; at < writes; at += every) {
      for (const when of ["before", "after"] as const) {
        let seen = 0;
        const { training, disk, deaths } = await trainThrough(
          (write) => {
            if (seen++ !== at) return null;
            kinds.add(write.to === "log" ? write.entry.type : write.to);
            return when;
          },
          { ...world, lives: 1 },
        );
        expect(deaths).toBe(1);
        checkDisk(disk, training, 0);
        expect(tokensOf(disk, training)).toEqual(expected);
      }
    }
    // Each kind has a test of its own below.
    if (isFull) expect(kinds).toEqual(new Set(["producer", "begin", "batch", "weights", "episodes", "groups"]));
  });

  test.each(["producer", "begin", "batch", "weights", "groups"])(
    "at the first %s that it writes, three times over",
    async (kind) => {
      const alone = await trainThrough(() => null, { ...world, lives: 1 });
      for (const when of ["before", "after"] as const) {
        const isKind = (write: Write): boolean => (write.to === "log" ? write.entry.type : write.to) === kind;
        // Every process dies at its first write of this kind.
        const { training, disk, deaths } = await trainThrough((write) => (isKind(write) ? when : null), {
          ...world,
          lives: 3,
        });
        expect(deaths).toBeGreaterThan(0);
        checkDisk(disk, training, 0);
        expect(tokensOf(disk, training)).toEqual(tokensOf(alone.disk, alone.training));
      }
    },
  );

  test("at random, again and again, with groups that grow too old: each is handed over once or dropped once", async () => {
    const drawn = fc.record({
      seed: fc.nat(),
      maxStaleness: fc.nat(2),
      batchGroups: fc.integer({ min: 1, max: 3 }),
      samples: fc.integer({ min: 2, max: 3 }),
      stale: fc.constantFrom("drop", "requeue"),
      replacements: fc.nat(1),
      passes: fc.constantFrom(null, 40),
      lives: fc.integer({ min: 1, max: 6 }),
    });
    let stales = 0;
    await fc.assert(
      fc.asyncProperty(
        drawn,
        async ({ seed, maxStaleness, batchGroups, samples, stale, replacements, passes, lives }) => {
          const random = createRandom(seed);
          const body = {
            samples,
            batch_groups: batchGroups,
            max_staleness: maxStaleness,
            stale,
            replacements,
            passes,
            weight_version: "0",
            tasks: [3, 1, 4],
          };
          const { training, disk } = await trainThrough(
            () => (random.next() < 0.03 ? (random.next() < 0.5 ? "before" : "after") : null),
            {
              body,
              steps: 6,
              lives,
              groupsOf: (number) => 1 + createRandom(seed + number).integer(batchGroups),
              versionsOf: (number) => 1 + createRandom(seed - number).integer(2),
            },
          );
          checkDisk(disk, training, maxStaleness);
          // A task is run again at most once for each of its groups that became stale.
          const again = disk.log.filter((entry) => entry.type === "begin" && entry.isRequeued).length;
          const old = [...disk.records.values()].filter(({ reason }) => reason === "stale").length;
          expect(again).toBeLessThanOrEqual(stale === "requeue" ? old : 0);
          stales += old;
          // After a repeated submission, the next process returns the same batches.
          const { sendJson, service } = await live(disk);
          const { id } = await sendJson<{ id: string }>("/v1/producers", body, key);
          for (const [number, { groups }] of training.batches.entries()) {
            expect((await sendJson<Batch>(`/v1/producers/${id}/batches/${number}`, {})).groups).toEqual(groups);
          }
          await service.close({ wait: false });
        },
      ),
      { seed: 5, numRuns: isFull ? 300 : 8, endOnFailure: true },
    );
    expect(stales).toBeGreaterThan(0);
  });
});

describe("a service that begins again", () => {
  const start = async ({ sendJson }: Life, body: unknown): Promise<string> =>
    (await sendJson<{ id: string }>("/v1/producers", body, key)).id;
  const stateOf = ({ sendJson }: Life, id: string) => sendJson<{ state: string }>(`/v1/producers/${id}`);

  test.each([
    ["pause", "paused"],
    ["drain", "ended"],
    ["cancel", "cancelled"],
  ] as const)("a producer that was requested to %s does so, if that was on disk", async (action, state) => {
    for (const when of ["before", "after"] as const) {
      const disk = emptyDisk();
      const weights = { version: "0" };
      const isSteered = (write: Write): boolean => write.to === "log" && write.entry.type === "steer";
      const one = await live(disk, { weights, diesAt: (write) => (isSteered(write) ? when : null) });
      const id = await start(one, { ...synchronous, max_staleness: 1, filters: [] });
      await one.sendJson(`/v1/producers/${id}/batches/0`, { wait_seconds: 60 });
      void one.sendJson(`/v1/producers/${id}/${action}`, "");
      await one.dead;
      const two = await live(disk, { weights });
      const batch = await two.sendJson<Batch>(`/v1/producers/${id}/batches/1`, { wait_seconds: 60 });
      const known = when === "before" ? "running" : state;
      expect(await stateOf(two, id)).toMatchObject({ state: known });
      // Groups that were open when the producer was paused or drained are handed over.
      const expected = known === "cancelled" ? ["ended", 0] : ["ready", 2];
      expect([batch.status, batch.groups.length]).toEqual(expected);
      await two.service.close({ wait: false });
      if (known !== "cancelled") checkDisk(disk, { batches: [], reported: 0 }, 1);
    }
  });

  test("weights are known again, also to producers that are requested later", async () => {
    const disk = emptyDisk();
    const one = await live(disk);
    const { weight_version: _, ...body } = synchronous;
    const id = await start(one, body);
    for (const version of ["a", "b", "b"]) await one.sendJson("/v1/weights", { version });
    one.die();
    const two = await live(disk);
    expect(await two.sendJson("/v1/info")).toMatchObject({ weight_version: "b" });
    expect(await stateOf(two, id)).toMatchObject({ version: 2, weight_version: "b" });
    const later = await two.sendJson<{ id: string }>("/v1/producers", body);
    two.die();
    const three = await live(disk);
    expect(await stateOf(three, later.id)).toMatchObject({ version: 0, weight_version: "b" });
    await three.service.close({ wait: false });
  });

  test("numbers of groups continue, for requests and producers alike", async () => {
    const disk = emptyDisk();
    const send = ({ sendJson }: Life) => sendJson("/v1/groups", { task_index: 0, samples: 2, wait_seconds: 60 });
    const one = await live(disk);
    await send(one);
    const id = await start(one, synchronous);
    await one.sendJson(`/v1/producers/${id}/batches/0`, { wait_seconds: 60 });
    one.die();
    const two = await live(disk);
    await send(two);
    await two.service.close({ wait: true });
    const numbers = disk.log.flatMap((entry) => ("groupIndex" in entry ? [entry.groupIndex] : []));
    expect(new Set(numbers).size).toBe(numbers.length);
  });
});
