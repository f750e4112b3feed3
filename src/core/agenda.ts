// The structured goal of an agenda-based simulated user (Schatzmann et al. 2007). Data only; `users/agenda.ts` plays it.

/** To be defined with the bookshop environment. */
export type Agenda = {
  readonly opening: string;
};
