import { execFile } from "node:child_process";
import { mkdir, readdir, readFile, rm, stat, symlink, writeFile } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { promisify } from "node:util";
import { describe, expect, it } from "vitest";

import { ConfigurationError } from "../../../core/index.ts";
import { prepareTauBench, readTauBenchCheckout } from "./read-checkout.ts";
import { withFolder } from "../../checkout/with-folder.test-helper.ts";
import { smallCheckout } from "./small-checkout.test-helper.ts";

const run = promisify(execFile);

/** Creates a folder that contains a checkout and has space for further folders. */
const withCheckout = <T>(use: (work: string, checkout: string) => Promise<T>): Promise<T> =>
  withFolder(new Map([...smallCheckout].map(([path, text]) => [`checkout/${path}`, text])), (work) =>
    use(work, join(work, "checkout")),
  );

async function refusal(promise: Promise<unknown>): Promise<string> {
  const error = await promise.then(
    () => null,
    (thrown: unknown) => thrown,
  );
  expect(error).toBeInstanceOf(ConfigurationError);
  return error instanceof Error ? error.message : "";
}

describe("prepareTauBench() from a checkout", () => {
  it("writes every file, into a new folder or an empty one, and leaves nothing else behind", async () => {
    await withCheckout(async (work, checkout) => {
      await mkdir(join(work, "empty"));
      for (const name of ["deep/new", "empty"]) {
        const lines: string[] = [];
        const result = await prepareTauBench({
          from: checkout,
          to: join(work, name),
          onProgress: (line) => lines.push(line),
        });
        const wanted = await readTauBenchCheckout(checkout);
        expect(result).toEqual({ folder: join(work, name), files: [...wanted.keys()], commit: null });
        for (const [path, text] of wanted) expect(await readFile(join(work, name, path), "utf8")).toBe(text);
        expect(await readdir(dirname(join(work, name)))).not.toContain(expect.stringContaining("partial"));
        // The folder has the same permissions as any folder made here.
        expect((await stat(join(work, name))).mode).toBe((await stat(checkout)).mode);
        expect(lines.at(-1)).toBe(`Wrote ${wanted.size} files to ${join(work, name)}.`);
      }
    });
  });

  it("refuses a folder that is not empty, before it reads anything", async () => {
    await withCheckout(async (work) => {
      const message = await refusal(prepareTauBench({ from: join(work, "nowhere"), to: join(work, "checkout") }));
      expect(message).toMatch(
        /^Cannot prepare τ-bench in ".*checkout": it is not empty \(it holds "\w+"\), .*--to <folder>\.$/,
      );
    });
  });

  it("refuses a file, a folder below a file, and a link to nothing", async () => {
    await withCheckout(async (work, checkout) => {
      await writeFile(join(work, "file"), "");
      await symlink(join(work, "nothing"), join(work, "link"));
      for (const name of ["file", "file/below"]) {
        expect(await refusal(prepareTauBench({ from: checkout, to: join(work, name) }))).toContain("a file,");
      }
      expect(await refusal(prepareTauBench({ from: checkout, to: join(work, "link") }))).toContain("a link to nothing");
    });
  });

  it("leaves the place as it was when the checkout cannot be read", async () => {
    await withCheckout(async (work, checkout) => {
      await rm(join(checkout, "tau_bench/envs/airline/wiki.md"));
      await refusal(prepareTauBench({ from: checkout, to: join(work, "new") }));
      expect(await readdir(work)).toEqual(["checkout"]);
    });
  });
});

describe("prepareTauBench() from a repository", () => {
  /** Makes a bare repository that has the checkout in the commit before its tip. */
  async function makeRepository(work: string, checkout: string): Promise<{ url: string; commit: string }> {
    const git = async (...parameters: readonly string[]): Promise<string> =>
      (await run("git", ["-C", checkout, "-c", "user.name=Ann", "-c", "user.email=ann@example.com", ...parameters]))
        .stdout;
    await git("init", "--quiet");
    await git("add", "--all");
    await git("commit", "--quiet", "--message", "The sources");
    const commit = (await git("rev-parse", "HEAD")).trim();
    await git("rm", "--quiet", "-r", "tau_bench");
    await git("commit", "--quiet", "--message", "Another layout");
    const url = join(work, "upstream.git");
    await git("clone", "--quiet", "--bare", checkout, url);
    await rm(checkout, { recursive: true });
    return { url, commit };
  }

  it("clones the wanted commit, says so, and removes the clone", async () => {
    await withCheckout(async (work, checkout) => {
      const upstream = await makeRepository(work, checkout);
      const lines: string[] = [];
      const result = await prepareTauBench({
        to: join(work, "new"),
        upstream,
        onProgress: (line) => lines.push(line),
      });
      expect(result.commit).toBe(upstream.commit);
      expect(lines[0]).toBe(`Cloning ${upstream.url} at commit ${upstream.commit.slice(0, 12)} with git.`);
      expect(await readFile(join(work, "new/retail/wiki.md"), "utf8")).toBe("# retail\r\n");
      expect((await readdir(work)).toSorted()).toEqual(["new", basename(upstream.url)]);
    });
  });

  it("names the remedy when there is no such commit, no such repository, or no git", async () => {
    await withCheckout(async (work, checkout) => {
      const upstream = await makeRepository(work, checkout);
      const to = join(work, "new");
      const commit = "0".repeat(40);
      for (const [changed, problem] of [
        [{ ...upstream, commit }, `at commit 000000000000: git gave up (`],
        [{ ...upstream, url: join(work, "nowhere.git") }, "check the network"],
        [{ ...upstream, git: join(work, "no-git") }, "install git"],
      ] as const) {
        const message = await refusal(prepareTauBench({ to, upstream: changed }));
        expect(message).toContain(problem);
        expect(message).toMatch(/^Cannot clone τ-bench from ".*--from <checkout>\.$/);
      }
      expect(await readdir(work)).toEqual(["upstream.git"]);
    });
  });

  it("stops when it is told to", async () => {
    await withCheckout(async (work, checkout) => {
      const upstream = await makeRepository(work, checkout);
      const prepared = prepareTauBench({ to: join(work, "new"), upstream, signal: AbortSignal.abort() });
      await expect(prepared).rejects.toThrow("aborted");
      expect(await readdir(work)).toEqual(["upstream.git"]);
    });
  });
});
