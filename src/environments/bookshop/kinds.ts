// What kinds of task there are. Names stand in run files and tables, so they are stable.

export const kinds = ["question", "cancel", "address", "return", "swap", "top_up", "owner"] as const;
export type Kind = (typeof kinds)[number];

/** 1: one plain goal. 2: one goal with a rule that forbids it, a fact to be found or a change of mind. 3: two goals. */
export const levels = [1, 2, 3] as const;
export type Level = (typeof levels)[number];
