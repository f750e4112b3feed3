// `npm run verify -- queue`: the queue at real brokers, Debian's nats-server and a newer one;
// `--quick`: only at Debian's, without the checks of access, with few leases and 15 kills, for
// continuous integration; `--full`: with 100,000 leases for ten minutes and 1,000 kills.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { root, runAttached } from "../run-command.mjs";
import { verifyAccess } from "./queue/access.mjs";
import { verifyDeployment } from "./queue/deployment.mjs";
import { runChaos } from "./queue/chaos.mjs";
import { measureJobs, simulateLeases } from "./queue/leases.mjs";
import { installNats, natsVersions } from "./queue/nats-server.mjs";
import { createReport } from "./report.mjs";

const sizes = {
  quick: { leases: 2000, holdMs: 3000, leaseMs: 6000 },
  usual: { leases: 20_000, holdMs: 20_000, leaseMs: 15_000 },
  full: { leases: 100_000, holdMs: 600_000, leaseMs: 60_000 },
};
/** Number of kills, and of tasks in each run. */
const chaos = { quick: { kills: 15, tasks: 40 }, usual: { kills: 60, tasks: 60 }, full: { kills: 1000, tasks: 60 } };

/**
 * @param {{ readonly quick: boolean, readonly full: boolean }} options
 * @returns {Promise<number>} The exit code.
 */
export async function verifyQueue({ quick, full }) {
  const work = mkdtempSync(join(tmpdir(), "verify-queue-"));
  const size = quick ? "quick" : full ? "full" : "usual";
  let worst = 0;
  try {
    for (const version of quick ? natsVersions.slice(0, 1) : natsVersions) {
      const report = createReport(`nats-server ${version}`);
      if (!quick) await verifyAccess(report, version, join(work, version));
      await report.check(
        quick ? "the contract of queues" : "the contract of queues, and faults of workers and services",
        async () => {
          const env = { ...process.env, NATS_SERVER: installNats(version) };
          const vitest = join(root, "node_modules", "vitest", "vitest.mjs");
          const faults = ["src/cli/processes-kill.wire.test.ts", "src/cli/serve-processes.wire.test.ts"];
          const code = await runAttached([vitest, "run", "src/queue/nats", ...(quick ? [] : faults)], { env });
          if (code !== 0) throw new Error(`vitest ended with ${code}`);
          return "all of its checks";
        },
      );
      await report.check("jobs there and back", () =>
        measureJobs({ version, folder: join(work, `${version}-jobs`), jobs: quick ? 1000 : 10_000 }),
      );
      await report.check("leases and heartbeats", () =>
        simulateLeases({
          version,
          folder: join(work, `${version}-leases`),
          ...sizes[size],
        }),
      );
      await report.check("kills of workers, coordinator and broker", () =>
        runChaos({ version, folder: join(work, `${version}-chaos`), ...chaos[size] }),
      );
      worst = Math.max(worst, report.finish());
    }
    if (!quick) {
      const report = createReport("deploy/");
      await verifyDeployment(report);
      worst = Math.max(worst, report.finish());
    }
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
  return worst;
}

/** Installs the broker of continuous integration: Debian's. */
export function installQueue() {
  return installNats("debian");
}
