// The shop: orders, products and users, and an agent that alone has tools.

import type { Domain } from "../domain.ts";
import { retailDatabase } from "./retail-models.ts";
import { retailToolkit } from "./retail-tools.ts";

export const retailDomain: Domain = {
  name: "retail",
  folder: "retail",
  agent: { toolkit: retailToolkit, database: retailDatabase, file: "db.json" },
  user: null,
  sync: null,
  soloRefusal: "Retail domain does not support solo mode",
  policy: { files: ["policy.md"], soloFiles: [], assemble: ([policy]) => policy! },
};
