// What a domain of the benchmark is: the behaviour of both sides, and which files hold what is data. Nothing of the data is here.

import type { DatabaseSpec } from "./database.ts";
import type { Toolkit, WorldState } from "./toolkit.ts";

/** The tools of a side, and where its database is read from. */
export type DomainSide = {
  readonly toolkit: Toolkit;
  readonly database: DatabaseSpec;
  /** Below the domain's folder, such as `db.json`; TOML where it ends so. */
  readonly file: string;
};

export type Domain = {
  readonly name: string;
  /** The folder of its files; those of variants with another policy share one. */
  readonly folder: string;
  readonly agent: DomainSide;
  /** `null`: the user has no tools. */
  readonly user: DomainSide | null;
  readonly sync: ((world: WorldState) => void) | null;
  /** Why it cannot be played without a user; `null`: it can. */
  readonly soloRefusal: string | null;
  /** The policy, of the texts of its files. */
  readonly policy: {
    readonly files: readonly string[];
    readonly soloFiles: readonly string[];
    readonly assemble: (texts: readonly string[]) => string;
  };
};
