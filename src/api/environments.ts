// The registry of environments. An environment that ships with the package is a folder of
// src/environments and a row here. Modules of users and files of tasks are found by their paths:
// `load-environment.ts`.

import { dataOptions } from "../environments/checkout/options.ts";
import { harborOptions } from "../environments/harbor/options.ts";
import { accessOptions, mcpOptions, taskOptions } from "../environments/remote/options.ts";
import { soloSuffix, tau2Domains, tau2Options } from "../environments/tau2-bench/options.ts";
import type { EnvironmentRow } from "../parts/environment.ts";
import { type OptionTable, optionsOfAll, type SettingValues } from "../parts/setting.ts";

const row = <Options extends OptionTable>(one: EnvironmentRow<Options>): EnvironmentRow<Options> => one;

const rows = {
  bookshop: row({
    type: "name",
    form: "bookshop",
    names: ["bookshop"],
    options: {},
    load: () => import("../environments/bookshop/open.ts"),
  }),
  "tau-bench": row({
    type: "family",
    form: "tau-bench/<domain>",
    names: ["tau-bench/retail", "tau-bench/airline"],
    options: dataOptions,
    load: () => import("../environments/tau-bench/open.ts"),
  }),
  "tau2-bench": row({
    type: "family",
    form: "tau2-bench/<domain>",
    names: ["", soloSuffix].flatMap((mode) => tau2Domains.map((domain) => `tau2-bench/${domain}${mode}`)),
    options: { ...dataOptions, ...tau2Options },
    load: () => import("../environments/tau2-bench/open.ts"),
  }),
  harbor: row({
    type: "folder",
    form: "harbor:<folder>",
    names: [],
    options: harborOptions,
    load: () => import("../environments/harbor/open.ts"),
  }),
  mcp: row({
    type: "remote",
    form: "mcp:<command or url>",
    names: [],
    options: { ...taskOptions, ...accessOptions, ...mcpOptions },
    load: () => import("./open-mcp.ts"),
  }),
  openenv: row({
    type: "remote",
    form: "openenv:<url>",
    names: [],
    options: { ...taskOptions, ...accessOptions },
    load: async () => ({ openSource: (await import("./remote-rewarding.ts")).openOpenEnv }),
  }),
  ors: row({
    type: "remote",
    form: "ors:<url>",
    names: [],
    options: accessOptions,
    load: async () => ({ openSource: (await import("./remote-rewarding.ts")).openOrs }),
  }),
};

export const environmentRows: Readonly<Record<string, EnvironmentRow>> = rows;

/** The options of all environments. */
export const environmentOptions = optionsOfAll(rows);
export const environmentOptionNames = Object.keys(environmentOptions) as readonly (keyof typeof environmentOptions)[];
export type EnvironmentOptions = SettingValues<typeof environmentOptions>;

/** Names of environments that can be opened by name, without an address or a path. */
export const environmentNames: readonly string[] = Object.values(environmentRows).flatMap(({ names }) => names);

/** The row of a name, and the part of the name after the row's own; `null` for a path, and for an unknown name. */
export function findEnvironment(name: string): { readonly row: EnvironmentRow; readonly rest: string } | null {
  const [, own = "", mark = "", rest = ""] = /^([a-z0-9-]+)(?:([/:])(.+))?$/s.exec(name) ?? [];
  const found = Object.hasOwn(environmentRows, own) ? environmentRows[own]! : null;
  const marks = { name: "", family: "/", folder: ":", remote: ":" };
  return found === null || marks[found.type] !== mark ? null : { row: found, rest: rest.trim() };
}

/** True if the episodes of the environment run elsewhere. */
export function isRemote(name: string): boolean {
  return findEnvironment(name)?.row.type === "remote";
}
