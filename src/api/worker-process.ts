// The program of a worker that a run started as a child process: reads its name and folder from the
// command line and its settings from the channel, and ends when the channel closes.

import { runWorker } from "../rollout/index.ts";
import { connectToParent } from "../queue/index.ts";
import { packageVersion } from "./surroundings.ts";
import { redactorFor } from "./secrets.ts";
import { endWatch, watchProcess } from "./user-code.ts";
import { openWorkerRun } from "./worker-run.ts";

const [name = "", folder = "", capacity = "", leaseMs = ""] = process.argv.slice(2);
const { env } = process;
const surroundings = { env, cwd: process.cwd() };
const drain = new AbortController();
// A terminal sends its Ctrl-C to the whole group; the coordinator decides what it means.
process.on("SIGINT", () => undefined);
process.on("SIGTERM", () => {
  if (drain.signal.aborted) process.exit(143);
  drain.abort();
});
watchProcess(redactorFor(env, { variables: [], urls: [] }));

/** A closed channel ends the worker; no further notice is needed. */
const onNotice = (message: string): void => void process.send?.({ type: "notice", message }, () => undefined);
await runWorker({
  name,
  version: packageVersion(),
  capacity: Number(capacity),
  drain: drain.signal,
  onNotice,
  connect: (handlers) => connectToParent(handlers, Number(leaseMs)),
  openRun: (state) => openWorkerRun(state, { surroundings, name, folder, onNotice }),
});
endWatch();
// Exits even if an engine or a module of the user's left a handle open.
process.exit();
