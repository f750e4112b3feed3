// Options of the expert, as an engine.

import { number, section } from "../../parts/setting.ts";

export const expertOptions = section("The policy", {
  expertNoise: number("<p>", 0.1, { min: 0, max: 1 }).help("probability that the expert errs at a turn"),
});
