// The bookshop with one plain goal a task: what `verify:learning` trains on. An environment as `--env <file>` takes it.

import { bookshopSource } from "../../dist/environments/bookshop/index.js";

export default bookshopSource({ levels: [1] });
