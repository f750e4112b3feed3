// `npm run verify -- queue`: the queue at real brokers, Debian's nats-server and a newer one.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { root, runAttached } from "../run-command.mjs";
import { verifyAccess } from "./queue/access.mjs";
import { installNats, natsVersions } from "./queue/nats-server.mjs";
import { createReport } from "./report.mjs";

/** @returns {Promise<number>} The exit code. */
export async function verifyQueue() {
  const work = mkdtempSync(join(tmpdir(), "verify-queue-"));
  let worst = 0;
  try {
    for (const version of natsVersions) {
      const report = createReport(`nats-server ${version}`);
      await verifyAccess(report, version, join(work, version));
      await report.check("the contract of queues", async () => {
        const env = { ...process.env, NATS_SERVER: installNats(version) };
        const vitest = join(root, "node_modules", "vitest", "vitest.mjs");
        const code = await runAttached([vitest, "run", "src/queue/nats"], { env });
        if (code !== 0) throw new Error(`vitest ended with ${code}`);
        return "all of its checks";
      });
      worst = Math.max(worst, report.finish());
    }
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
  return worst;
}

/** What continuous integration needs: Debian's. */
export function installQueue() {
  return installNats("debian");
}
