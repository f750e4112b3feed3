// The bookshop with one plain goal a task: what `verify:learning` trains on. An environment as `--env <file>` takes it.

import { bookshopSource } from "../../dist/environments/bookshop/index.js";

// oxlint-disable-next-line import/no-default-export -- what `--env <file>` takes
export default bookshopSource({ levels: [1] });
