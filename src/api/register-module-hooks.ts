// Imported for its effect, or given to Node's --import: modules that are loaded afterwards are read by `module-hooks.ts`.

import { register } from "node:module";

register("./module-hooks.js", import.meta.url);
