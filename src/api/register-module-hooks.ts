// Imported for its effect, or given to Node's --import: `module-hooks.ts` reads all modules that
// are loaded afterwards.

import { register } from "node:module";

register("./module-hooks.js", import.meta.url);
