import { expect, test } from "vitest";
import { notStarted } from "./episode-view.ts";
import { EpisodeJob } from "./jobs.ts";
import { streamEvents } from "./responses.ts";

const task = {
  id: "t",
  index: 0,
  split: "train",
  environment: "test",
  contentHash: "",
  instruction: null,
  agenda: null,
};

function jobOf(): EpisodeJob {
  return new EpisodeJob({ episodeId: "e", groupId: "g", sampleIndex: 0, task, seed: 0 });
}

test("nothing is prepared for a client that does not read", async () => {
  const job = jobOf();
  let written = 0;
  for (let index = 0; index < 1000; index++) job.see({ type: "turn", toJSON: () => ++written });
  job.end(notStarted, { isStored: true });
  const reader = streamEvents({ job, stored: async () => [], redact: (shown) => shown }, 0).body!.getReader();
  await reader.read();
  await new Promise((done) => setImmediate(done));
  expect(written).toBeLessThan(5);
  await reader.cancel();
});

test("the stream of a suspended episode ends without its end", async () => {
  const job = jobOf();
  job.see({ type: "turn" });
  const text = streamEvents({ job, stored: async () => [], redact: (shown) => shown }, 0).text();
  job.suspend();
  expect(await text).toBe('id: 1\nevent: turn\ndata: {"type":"turn"}\n\n');
});
