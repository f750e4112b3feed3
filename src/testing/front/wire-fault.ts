// Faults of the wire that no honest sampler has: answers of another status, answers that are not what they should be, and
// connections that end in the middle. A sampler throws one and the front carries it out. Only fault samplers do.

import type { SamplerOutput } from "./sampler.ts";

export type WireFault =
  /** Another answer altogether. */
  | {
      readonly type: "answer";
      readonly status: number;
      readonly headers: Readonly<Record<string, string>>;
      readonly text: string;
    }
  /** The right answer, changed before it is written as JSON; a {@link RawText} is written as it is. */
  | { readonly type: "edit"; readonly output: SamplerOutput; readonly edit: (item: unknown) => unknown }
  /** The right answer, cut off after this share of its bytes: 0 sends headers only. */
  | { readonly type: "drop"; readonly output: SamplerOutput; readonly share: number };

export class WireFaultError extends Error {
  readonly fault: WireFault;

  constructor(fault: WireFault) {
    super(`A fault of the wire: ${fault.type}.`);
    this.name = "WireFaultError";
    this.fault = fault;
  }
}

/** Text that is written where JSON should be. */
export class RawText {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

/** An item as it is sent. */
export function itemText(item: unknown): string {
  return item instanceof RawText ? item.text : JSON.stringify(item);
}
