// Where upstream keeps what we read, as a table. Not a reader. Paths are those of the pinned commit; a checkout of another
// commit is read as long as its files still say the same kind of thing.

import { execFile } from "node:child_process";
import { promisify } from "node:util";

import { ConfigurationError } from "../../../core/index.ts";

/** The commit whose sources the readers are known to understand, and the one that is cloned. */
export const upstreamCommit = "59a200c6d575d595120f1cb70fea53cef0632f6b";

export const upstreamUrl = "https://github.com/sierra-research/tau-bench.git";

/** What to do about a source that cannot be read, as the end of a sentence. */
export const checkoutRemedy = `take the sources of commit ${upstreamCommit.slice(0, 12)}`;

export type UpstreamDomain = {
  readonly name: string;
  readonly tables: readonly string[];
  /** Name of each split, and of the list in its source file. */
  readonly splits: readonly { readonly name: string; readonly variable: string }[];
  readonly displays: string;
};

export const upstreamDomains: readonly UpstreamDomain[] = [
  {
    name: "retail",
    tables: ["users", "orders", "products"],
    splits: [
      { name: "train", variable: "TASKS_TRAIN" },
      { name: "test", variable: "TASKS_TEST" },
      { name: "dev", variable: "TASKS_DEV" },
    ],
    displays: "few_shot_data/MockRetailDomainEnv-few_shot.jsonl",
  },
  {
    name: "airline",
    tables: ["users", "flights", "reservations"],
    splits: [{ name: "test", variable: "TASKS" }],
    displays: "few_shot_data/MockAirlineDomainEnv-few_shot.jsonl",
  },
];

/** Prompts of the simulated users, shared by all domains. Its presence is what makes a folder a checkout. */
export const userSource = "tau_bench/envs/user.py";

export const domainFolder = (domain: UpstreamDomain): string => `tau_bench/envs/${domain.name}`;

export type Upstream = {
  /** Anything that `git fetch` understands. */
  readonly url: string;
  /** Full name of the commit; what it holds is then known, whichever server it comes from. */
  readonly commit: string;
  /** The program that is called. */
  readonly git: string;
};

const run = promisify(execFile);

/** Fills an empty folder. Throws a `ConfigurationError` that names the remedy when git or the commit cannot be had. */
export async function cloneUpstream(upstream: Upstream, folder: string, signal?: AbortSignal): Promise<void> {
  const git = async (...parameters: readonly string[]): Promise<void> => {
    try {
      await run(upstream.git, ["-C", folder, ...parameters], {
        env: gitEnvironment(),
        windowsHide: true,
        maxBuffer: 16_000_000,
        ...(signal === undefined ? {} : { signal }),
      });
    } catch (error) {
      signal?.throwIfAborted();
      throw explain(error, upstream);
    }
  };
  await git("init", "--quiet");
  await git(...patience, "fetch", "--quiet", "--no-tags", "--depth", "1", upstream.url, upstream.commit);
  // Files keep their bytes whatever the platform and the user's settings say.
  await git("-c", "core.autocrlf=false", "-c", "core.eol=lf", "checkout", "--quiet", "--detach", "FETCH_HEAD");
}

/** A connection that brings less than 1 kB/s for 30 s is given up. */
const patience = ["-c", "http.lowSpeedLimit=1000", "-c", "http.lowSpeedTime=30"];

/** Without what a git that called us would say about its own repository. */
const gitEnvironment = (): NodeJS.ProcessEnv => ({
  ...process.env,
  GIT_DIR: undefined,
  GIT_WORK_TREE: undefined,
  GIT_INDEX_FILE: undefined,
  GIT_TERMINAL_PROMPT: "0",
  LC_ALL: "C",
});

function explain(error: unknown, { url, commit, git }: Upstream): ConfigurationError {
  const beginning = `Cannot clone τ-bench from "${url}" at commit ${commit.slice(0, 12)}:`;
  const remedy = "clone it where you can, and name the folder with --from <checkout>";
  if (codeOf(error) === "ENOENT") {
    return new ConfigurationError(`${beginning} there is no program "${git}"; install git, or ${remedy}.`, {
      cause: error,
    });
  }
  const said = error instanceof Error && "stderr" in error ? String(error.stderr) : String(error);
  const reason = said.trim().split("\n").slice(-3).join(" ").slice(-400);
  return new ConfigurationError(
    `${beginning} git gave up (${reason || "it said nothing"}); check the network, or ${remedy}.`,
    { cause: error },
  );
}

/** Of an error of the system; `null` for any other. */
export const codeOf = (error: unknown): unknown => (error instanceof Error && "code" in error ? error.code : null);
