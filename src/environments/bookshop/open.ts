// Opens the bookshop for a run.

import type { LoadedEnvironment } from "../../parts/environment.ts";
import { bookshopSource } from "./source.ts";

/** Its tasks are generated, not collected: there are thousands, and a few are representative. */
export function openSource(): Promise<LoadedEnvironment> {
  return Promise.resolve({ source: bookshopSource(), defaultSplit: "train", defaultTasks: "0-7" });
}
