// The bookshop with one goal a task, of the kinds in which the shipped models have most to unlearn: what `verify -- learning` trains
// on. An environment as `--env <file>` takes it.

import { bookshopSource } from "../../dist/environments/bookshop/index.js";

// oxlint-disable-next-line import/no-default-export -- what `--env <file>` takes
export default bookshopSource({ kinds: ["cancel", "address", "swap"], levels: [1, 2] });
