// Makes the prepared layout of τ-bench in a folder. Not needed to run the environment, which reads a checkout just as well; a
// prepared folder is faster, and can be copied.

import { type PreparedFolder, prepareFolder, type PrepareOptions } from "../../checkout/prepare-folder.ts";
import { readTauBenchCheckout } from "./read-checkout.ts";
import { upstream } from "./upstream.ts";

/** As {@link prepareFolder}. */
export function prepareTauBench(options: PrepareOptions): Promise<PreparedFolder> {
  return prepareFolder(options, { pinned: upstream, read: readTauBenchCheckout });
}
