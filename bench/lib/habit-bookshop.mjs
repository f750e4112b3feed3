// The bookshop with one goal per task, of the kinds in which the shipped models have the most to
// unlearn: the tasks of `verify -- learning`. An environment for `--env <file>`.

import { bookshopSource } from "../../dist/environments/bookshop/index.js";

// oxlint-disable-next-line import/no-default-export -- what `--env <file>` takes
export default bookshopSource({ kinds: ["cancel", "address", "swap"], levels: [1, 2] });
