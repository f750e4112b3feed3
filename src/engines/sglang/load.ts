// How busy SGLang servers say they are: `/v1/loads`, or `/get_load` of older ones. Each data-parallel rank counts as one of
// a server's parts: requests are summed, and the fullest cache speaks for all.

import type { EngineLoad } from "../../core/engine.ts";
import { asFields, badReply, type EngineServer, type HttpCallOptions, parseJson, readCount } from "../../http/index.ts";

/** Newest first. The sections beside "core" cost the server more than they tell us. */
const paths = ["/v1/loads?include=core", "/get_load"];

/** Of one server; `null` when it has neither call. */
export async function serverLoad(server: EngineServer, options: HttpCallOptions): Promise<EngineLoad | null> {
  for (const path of paths) {
    const context = server.context("ask for the load of", path);
    const answer = await server.send(server.request(path, null), options);
    if (answer.status === 404 || answer.status === 405) continue;
    if (answer.status !== 200) throw server.refusal(answer, context);
    const reply: unknown = parseJson(answer.body, context);
    const ranks: unknown = asFields(reply)?.["loads"] ?? reply;
    if (!Array.isArray(ranks)) throw badReply(context, "it lists no loads");
    return sumLoads((ranks as readonly unknown[]).map(rankLoad), 1);
  }
  return null;
}

/** Of all servers; those that report nothing are left out, and `null` when none reports. */
export function sumLoads(loads: readonly (EngineLoad | null)[], servers?: number): EngineLoad | null {
  const known = loads.filter((load) => load !== null);
  if (known.length === 0) return null;
  const uses = known.map(({ kvUse }) => kvUse).filter((use) => use !== null);
  return {
    servers: servers ?? known.length,
    running: known.reduce((sum, { running }) => sum + running, 0),
    waiting: known.reduce((sum, { waiting }) => sum + waiting, 0),
    kvUse: uses.length === 0 ? null : Math.max(...uses),
  };
}

function rankLoad(rank: unknown): EngineLoad {
  const fields = asFields(rank) ?? {};
  const waiting = readCount(fields["num_waiting_reqs"]) ?? 0;
  // `/get_load` counts both together.
  const running = readCount(fields["num_running_reqs"]) ?? Math.max(0, (readCount(fields["num_reqs"]) ?? 0) - waiting);
  const use = fields["token_usage"];
  const kvUse = typeof use === "number" && use >= 0 && use <= 1 ? use : null;
  return { servers: 1, running, waiting, kvUse };
}
