// A service that dies and restarts: no acknowledged request is lost, nothing is run twice.

import { appendFile, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { openRequestLog } from "./request-log.ts";
import { createTestService } from "./service.test-helper.ts";

type GroupAnswer = {
  readonly id: string;
  readonly episodes: readonly { readonly id: string; readonly outcome: string }[];
};

test("a restarted service knows its requests, has what ended and runs the rest as it would have", async () => {
  const folder = await mkdtemp(join(tmpdir(), "service-"));
  const path = join(folder, "requests.jsonl");
  const request = (key: string, samples: number) =>
    ["/v1/groups", { task_index: 4, samples, wait_seconds: 60 }, { "idempotency-key": key }] as const;

  const uninterrupted = createTestService();
  const expected = await uninterrupted.sendJson<GroupAnswer>(...request("late", 3));

  const opened = await openRequestLog(path);
  const first = createTestService({ requests: opened.log });
  const done = await first.sendJson<GroupAnswer>(...request("early", 2));
  first.gate.close();
  const [late, cancelled] = ["late", "cancelled"].map(async (key) => {
    const [where, body, headers] = request(key, 3);
    return first.sendJson<GroupAnswer>(where, { ...body, wait_seconds: 0 }, headers);
  });
  await late;
  await first.send(`/v1/groups/${(await cancelled)?.id}/cancel`, {});
  // The process dies: its episodes end with it, and its last line is incomplete.
  await first.service.close({ wait: false });
  await opened.log.close();
  await appendFile(path, '{"type":"request","gro');

  const reopened = await openRequestLog(path);
  expect(reopened.earlier.map(({ type }) => type)).toEqual(["request", "request", "request", "cancel"]);
  const { kept } = first;
  expect(kept.size).toBe(2);
  const second = createTestService({ requests: reopened.log, kept, groups: first.groups });
  await second.service.restore(reopened.earlier, { decided: first.records });
  expect(await second.sendJson(...request("early", 2))).toEqual(done);
  const body = { task_index: 4, samples: 3, wait_seconds: 0 };
  const again = await second.sendJson<GroupAnswer>("/v1/groups", body, { "idempotency-key": "late" });
  const ended = await second.sendJson<GroupAnswer>(`/v1/groups/${again.id}?wait_seconds=60`);
  expect(ended).toEqual(expected);
  for (const { id } of expected.episodes) {
    expect(second.kept.get(id)?.trajectory).toEqual(uninterrupted.kept.get(id)?.trajectory);
  }
  const gone = await second.sendJson<GroupAnswer>(`/v1/groups/${(await cancelled)?.id}?wait_seconds=60`);
  expect(gone.episodes.map(({ outcome }) => outcome)).toEqual(["aborted", "aborted", "aborted"]);
  await reopened.log.close();
  await rm(folder, { recursive: true });
});

test("a broken line in the middle is reported with its place", async () => {
  const folder = await mkdtemp(join(tmpdir(), "service-"));
  const path = join(folder, "requests.jsonl");
  await appendFile(path, '{"type":"cancel","groupId":"g","episodeIds":[]}\n{"type":"request"}\n');
  await expect(openRequestLog(path)).rejects.toThrow(
    `Cannot resume from ${path}: line 2 is not a request of this service`,
  );
  await rm(folder, { recursive: true });
});
