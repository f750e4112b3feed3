// The airline: flights, reservations and users, and an agent that alone has tools.

import type { Domain } from "../domain.ts";
import { airlineDatabase } from "./airline-models.ts";
import { airlineToolkit } from "./airline-tools.ts";

export const airlineDomain: Domain = {
  name: "airline",
  folder: "airline",
  agent: { toolkit: airlineToolkit, database: airlineDatabase, file: "db.json" },
  user: null,
  sync: null,
  soloRefusal: "Airline domain does not support solo mode",
  policy: { files: ["policy.md"], soloFiles: [], assemble: ([policy]) => policy! },
};
