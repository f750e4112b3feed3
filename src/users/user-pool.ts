// The HTTP pool of a simulated user when none is given: as wide as the calls that may run at once.

import { createHttpPool, type HttpClient } from "../http/index.ts";
import { defaultMaxConcurrency } from "./model-caller.ts";

const mostConnections = 65_535;

export function userPool(maxConcurrency: number = defaultMaxConcurrency): HttpClient {
  return createHttpPool({ boundary: "user", connections: Math.min(maxConcurrency, mostConnections) });
}
