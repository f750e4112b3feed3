// A service: a trainer, in any language, requests groups over HTTP and gets training rows.
// Equivalent to the command `serve`.
// Run: npx trainable-agents example 06

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { serve } from "trainable-agents";

const cwd = await mkdtemp(join(tmpdir(), "example-"));
const service = await serve({ env: "bookshop", engine: "expert", listen: "127.0.0.1:0", cwd, out: "service" });

type Group = {
  readonly id: string;
  readonly status: string;
  readonly episodes: readonly { readonly reward: number }[];
};
const reply = await fetch(`${service.url}/v1/groups`, {
  method: "POST",
  headers: { "content-type": "application/json" },
  body: JSON.stringify({ task_index: 3, group_size: 4, wait_seconds: 60 }),
});
const group = (await reply.json()) as Group;
console.log(`group ${group.status}, rewards ${group.episodes.map(({ reward }) => reward).join(", ")}`);

const rows = await fetch(`${service.url}/v1/groups/${group.id}/samples?format=slime`);
const { samples } = (await rows.json()) as { readonly samples: readonly { readonly tokens: readonly number[] }[] };
console.log(`${samples.length} rows, the first of ${samples[0]?.tokens.length} tokens`);
await service.close();
await rm(cwd, { recursive: true });
