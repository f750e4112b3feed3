// How the loop ends an episode from within: thrown, never seen outside of this room.

import type { StopReason } from "../../core/failure.ts";

export class Stop extends Error {
  readonly reason: StopReason;
  constructor(reason: StopReason) {
    super(reason);
    this.reason = reason;
  }
}
