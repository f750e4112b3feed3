import { describe, expect, it, test } from "vitest";
import { EndedSessions } from "./ended-sessions.ts";
import { openWorld, post } from "./gateway-world.test-helper.ts";
import { SessionGroups } from "./session-groups.ts";

const body = { model: "m", messages: [{ role: "user", content: "a" }] };

describe("EndedSessions", () => {
  it("remembers the latest, and no more than its bound", () => {
    const ended = new EndedSessions(3);
    for (const name of ["a", "b", "c", "a", "d"]) ended.add(name, `id-${name}`);
    expect(["a", "b", "c", "d"].map((name) => ended.find(name))).toEqual(["id-a", null, "id-c", "id-d"]);
  });
});

test("a session that ended is never begun again by its key, remembered or not", async () => {
  const world = await openWorld(() => "fine");
  const opened = await world.gateway.open({ id: "given" });
  const keys = ["plain", "ghp_0123456789abcdefghijABCDEFGHIJ012345", opened.key];
  for (const key of keys) expect((await post(world.gateway, "/v1/chat/completions", body, { key })).status).toBe(200);
  for (const { id } of world.gateway.sessions) await world.gateway.end(id);
  // A gateway that remembers no keys: the same as after ten thousand further sessions, or with the
  // store of another process.
  const { createGateway } = await import("./index.ts");
  const { createQwenRenderer } = await import("../renderers/index.ts");
  const { tokenizer } = await import("./gateway-world.test-helper.ts");
  const renderer = createQwenRenderer({ tokenizer, family: "qwen2.5-instruct" });
  const forgetful = createGateway({ engine: world.engine, renderer, store: world.store });
  for (const gateway of [world.gateway, forgetful]) {
    const statuses = [];
    for (const key of keys) {
      const { status, json } = await post(gateway, "/v1/chat/completions", body, { key });
      statuses.push(`${status} ${(json["error"] as { readonly code: string }).code}`);
    }
    const last = gateway === forgetful ? "401 unauthorized" : "400 session_ended";
    expect(statuses).toEqual(["400 session_ended", "400 session_ended", last]);
    expect(gateway.sessions).toEqual([]);
  }
  forgetful.close();
  await world.close();
});

describe("SessionGroups", () => {
  const none = async (): Promise<boolean> => false;
  const of = (sessionId: string, size = 2, task = "t") => ({ sessionId, size, task });

  it("gives each session a place, and no group an id that another had", async () => {
    const groups = new SessionGroups(none);
    const joined = [];
    for (const [name, size] of [
      ["t", 2],
      ["t", 2],
      ["t@2", 1],
      ["t", 2],
      ["t", 2],
      ["t@3", 1],
    ] as const) {
      const { group, place } = await groups.join(name, of("s", size));
      joined.push(`${group.id} ${place}`);
    }
    expect(joined).toEqual(["t 0", "t 1", "t@2 0", "t@3 0", "t@3 1", "t@3@2 0"]);
    await expect(groups.join("u", of("s")).then(() => groups.join("u", of("s", 2, "other")))).rejects.toThrow(
      "rewards of different tasks are not compared",
    );
  });

  it("keeps nothing of the group of a session alone, whose id is taken for ever", async () => {
    const ended = new Set<string>();
    const groups = new SessionGroups(async (id) => ended.has(id));
    await groups.join("s1", of("s1", 1));
    // Both while the session is open and after it has ended.
    expect((await groups.join("s1", of("s2", 1))).group.id).toBe("s1@2");
    groups.close("s1");
    ended.add("s1");
    groups.close("s1@2");
    expect((await groups.join("s1", of("s3", 1))).group.id).toBe("s1@3");
    const next = new SessionGroups(async (id) => ended.has(id));
    const facts = { group: "t@4", group_name: "t", group_index: 7, group_size: 1, sample_index: 0 };
    next.remember(facts, "s4");
    const { group } = await next.join("t", of("s5", 1));
    expect([group.id, group.groupIndex]).toEqual(["t@5", 8]);
  });

  it("fills the places of one group when sessions are opened at once", async () => {
    const groups = new SessionGroups(none);
    const joined = await Promise.all(Array.from({ length: 6 }, (_, at) => groups.join("t", of(`s${at}`))));
    expect(joined.map(({ group, place }) => `${group.id} ${place}`)).toEqual([
      ...["t 0", "t 1", "t@2 0", "t@2 1", "t@3 0", "t@3 1"],
    ]);
  });
});
