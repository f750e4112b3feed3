// The HTTP pool of a model when none is given: as wide as the calls that may run at once.

import { createHttpPool, type HttpClient } from "../http/index.ts";
import { boundaryOf, type ModelPart } from "./model-failure.ts";
import { defaultMaxConcurrency } from "./model-caller.ts";

const mostConnections = 65_535;

export function modelPool(part: ModelPart, maxConcurrency: number = defaultMaxConcurrency): HttpClient {
  return createHttpPool({ boundary: boundaryOf(part), connections: Math.min(maxConcurrency, mostConnections) });
}
