// One commit of an upstream repository, cloned with git into a folder. Its name says what it holds, whichever server it comes from.

import { execFile } from "node:child_process";
import { promisify } from "node:util";

import { ConfigurationError } from "../../core/index.ts";
import { codeOf } from "./checkout-files.ts";

export type Upstream = {
  /** Of the benchmark, for messages. */
  readonly title: string;
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

function explain(error: unknown, { title, url, commit, git }: Upstream): ConfigurationError {
  const beginning = `Cannot clone ${title} from "${url}" at commit ${commit.slice(0, 12)}:`;
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
