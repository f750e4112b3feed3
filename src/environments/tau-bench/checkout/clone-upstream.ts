// One commit of a repository, fetched with the git command line into a new folder. Nothing of the history, and nothing that
// waits for somebody: git may not ask for a password, and gives up on a connection that stands still.

import { execFile } from "node:child_process";
import { promisify } from "node:util";

import { ConfigurationError } from "../../../core/index.ts";

export type Upstream = {
  /** Anything that `git fetch` understands. */
  readonly url: string;
  /** Full name of the commit; what it holds is then known, whoever serves it. */
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
  const code = error instanceof Error && "code" in error ? error.code : null;
  if (code === "ENOENT") {
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
