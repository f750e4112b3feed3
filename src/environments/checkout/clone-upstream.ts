// One commit of an upstream repository, cloned with git into a folder. Its name says what it holds, whichever server it comes from.

import { execFile } from "node:child_process";
import { promisify } from "node:util";

import { ConfigurationError } from "../../core/index.ts";
import { codeOf } from "./checkout-files.ts";
import { parsePython, type PythonSource } from "./python-source.ts";

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

// What a pinned commit of an upstream repository is to its readers: where it is cloned from, and what to do about a source that
// cannot be read. A checkout of another commit is read as long as its files still say the same kind of thing.

type PinnedUpstream = {
  readonly upstream: Upstream;
  /** What to do about a source that cannot be read, as the end of a sentence. */
  readonly checkoutRemedy: string;
  /** A source of upstream, by its path within the checkout. */
  readonly parseSource: (file: string, content: string) => PythonSource;
};

/** `commit`: the one whose sources the readers are known to understand, and the one that is cloned. */
export function pinUpstream(pinned: Pick<Upstream, "title" | "url" | "commit">): PinnedUpstream {
  const checkoutRemedy = `take the sources of commit ${pinned.commit.slice(0, 12)}`;
  return {
    upstream: { ...pinned, git: "git" },
    checkoutRemedy,
    parseSource: (file, content) => parsePython(file, content, checkoutRemedy),
  };
}
