import { existsSync, mkdtempSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { AttributedError } from "../../core/failure.ts";
import { fromPlain } from "../../python-semantics/json/plain.ts";
import type { JsonObject } from "../../python-semantics/json/value.ts";
import { harborSource, type HarborWorld } from "./index.ts";
import { Sandbox } from "./sandbox.ts";
import { hasBubblewrap, processesWith, taskFiles, writeTasks } from "./sandbox.test-helper.ts";

const reward = "echo 0.5 > /logs/verifier/reward.txt";
const ending = { outcome: "completed" } as const;

type Used = { readonly world: HarborWorld; readonly bash: (command: string, timeout?: number) => Promise<string> };

/** Uses the world of one task, which is closed in every case; its folder is removed. */
async function withWorld<T>(files: Readonly<Record<string, string>>, use: (used: Used) => Promise<T>): Promise<T> {
  const folder = writeTasks({ hostile: files });
  try {
    const source = await harborSource(folder, { gradeMs: 30_000 });
    const world = await source.open(source.taskset("all").task(0));
    const bash = async (command: string, timeout = 20): Promise<string> => {
      const args = fromPlain({ command, timeout }) as JsonObject;
      return (await world.call({ name: "bash", arguments: args })).text;
    };
    try {
      return await use({ world, bash });
    } finally {
      await world.close();
    }
  } finally {
    rmSync(folder, { recursive: true });
  }
}

describe.skipIf(!hasBubblewrap())("a hostile policy", { timeout: 120_000 }, () => {
  it("has no capabilities, and is not the machine's root", async () => {
    await withWorld(taskFiles(reward), async ({ bash }) => {
      expect(await bash("grep -c '^Cap.*0000000000000000$' /proc/self/status")).toBe("5\n");
      expect(await bash("mount -o remount,bind,rw /usr; touch /usr/escaped")).toMatch(/Read-only file system/);
      expect(await bash("unshare -U true; echo $?")).toMatch(/1\n$/);
    });
    expect(existsSync("/usr/escaped")).toBe(false);
  });

  it("is not the machine's root, even if this process is", async () => {
    const name = `user-${process.pid}`;
    await withWorld(taskFiles(reward), async ({ bash }) => {
      await bash(`exec -a ${name} sleep 1000 > /dev/null 2>&1 &`);
      const [id = ""] = processesWith(name);
      expect(statSync(`/proc/${id}`).uid).not.toBe(0);
    });
  });

  it("writes neither settings of the kernel nor files of the machine", async () => {
    const setting = "/proc/sys/kernel/core_pattern";
    const before = readFileSync(setting, "utf8");
    const folder = mkdtempSync(join(tmpdir(), "harbor-outside-"));
    await withWorld(taskFiles(reward), async ({ bash }) => {
      expect(await bash(`echo escaped > ${setting}`)).toMatch(/denied|Read-only/);
      expect(await bash(`mkdir -p ${folder}; echo escaped > ${folder}/file; ls /home /etc/shadow`)).toMatch(
        /cannot access/,
      );
      expect(await bash("(exec 3<>/dev/tcp/1.1.1.1/53) 2>&1; ls /sys /dev/mem")).toMatch(/unreachable/);
    });
    expect(readFileSync(setting, "utf8")).toBe(before);
    expect(existsSync(join(folder, "file"))).toBe(false);
    rmSync(folder, { recursive: true });
  });

  it("cannot lead reading, writing and grading out of the sandbox by links", async () => {
    await withWorld(taskFiles(reward), async ({ world, bash }) => {
      await bash("ln -s /etc/hostname evil; rm -rf /logs /tests; ln -s /usr /logs; ln -s /usr/bin /tests");
      const read = await world.call({ name: "read", arguments: new Map([["path", "evil"]]) });
      expect(read).toMatchObject({ isError: true, text: "There is no file evil.\n[exit code 1]" });
      expect((await world.grade(ending)).reward).toBe(0.5);
    });
    expect(existsSync("/usr/verifier")).toBe(false);
  });

  // Grading begins while the bomb grows, or when it has reached its limit.
  it.each([0, 0.2, 2])(
    "is still graded %d s after a fork bomb and killing all processes, and leaves none",
    async (seconds) => {
      const name = `bomb-${process.pid}`;
      await withWorld(taskFiles(reward), async ({ world, bash }) => {
        await bash("kill -9 -1; kill -9 1");
        expect(await bash("echo alive")).toBe("alive\n");
        const bomb = `trap "" TERM HUP; f() { f | f & }; f; sleep 1000\n`;
        await world.call({ name: "write", arguments: fromPlain({ path: `${name}.sh`, content: bomb }) as JsonObject });
        await bash(`setsid bash ${name}.sh > /dev/null 2>&1 & sleep ${seconds}`);
        expect(processesWith(name).length).toBeGreaterThan(1);
        expect(await world.grade(ending)).toMatchObject({ reward: 0.5, log: "" });
      });
      expect(processesWith(name)).toEqual([]);
    },
  );

  it("cannot keep later commands from starting with all the processes it may have", async () => {
    const limits = { memoryBytes: 256 * 1024 * 1024, processes: 40, cpus: null };
    const options = { limits, storageBytes: 1024 * 1024, hasNetwork: false, workdir: "/", variables: {} };
    const sandboxes = await Promise.all([Sandbox.open(options), Sandbox.open(options)]);
    const [full, other] = sandboxes;
    const say = async (sandbox: Sandbox): Promise<string> => {
      const script = "/bin/echo started";
      return (await sandbox.run({ run: ["/bin/bash", "--norc", "-c", `${script}; true`], timeoutMs: 2_000 })).output;
    };
    try {
      const fill = "for i in {1..100}; do setsid sleep 1000 > /dev/null 2>&1 & done";
      await full.run({ run: ["/bin/bash", "--norc", "-c", fill], timeoutMs: 3_000 });
      expect(await say(full)).not.toMatch(/started/);
      // The limit is that of one sandbox.
      expect(await say(other)).toBe("started\n");
      full.openReserve();
      expect(await say(full)).toBe("started\n");
    } finally {
      for (const sandbox of sandboxes) await sandbox.close();
    }
  });

  it("keeps processes in the background until the episode ends, and no longer", async () => {
    const name = `server-${process.pid}`;
    await withWorld(taskFiles(reward), async ({ bash }) => {
      await bash(`(trap '' TERM HUP; exec -a ${name} sleep 1000) > /dev/null 2>&1 & disown`);
      await bash(`setsid -f bash -c 'exec -a ${name}-2 sleep 1000' > /dev/null 2>&1; sleep 0.2`);
      expect(processesWith(name)).toHaveLength(2);
      // A process that keeps the output open does not keep the command from returning.
      expect(await bash(`exec -a ${name}-3 sleep 1000 & echo started`)).toBe("started\n");
      expect(processesWith(name)).toHaveLength(3);
    });
    expect(processesWith(name)).toEqual([]);
  });

  it("writes and prints no more than the bounds", async () => {
    await withWorld(
      taskFiles(reward, { toml: "[environment]\nnetwork_mode = 'no-network'\nstorage_mb = 8\n" }),
      async ({ bash }) => {
        const text = await bash("yes");
        expect(text.length).toBeLessThan(61_000);
        expect(text).toMatch(/bytes of output omitted[^]*\[killed: too much output\]$/);
        expect(await bash("head -c 20000000 /dev/zero > big; stat -c %s big; rm big")).toMatch(
          /No space left[^]*\n8\d{6}\n$/,
        );
        expect(await bash("sleep 100", 0.2)).toBe("[killed after 0.2 s]");
        expect(await bash("head -c 100000000 /dev/zero > /dev/shm/big; echo $?")).toMatch(/No space left/);
      },
    );
  });

  it("is told that a command is too long for the system", async () => {
    await withWorld(taskFiles(reward), async ({ bash }) => {
      expect(await bash(`echo ${"x".repeat(200_000)}`)).toMatch(/^The command is too long/);
    });
  });

  it("ends at the time of its task, and is graded", async () => {
    const toml = "[environment]\nnetwork_mode = 'no-network'\n[agent]\ntimeout_sec = 0.5\n";
    await withWorld(taskFiles(reward, { toml }), async ({ world }) => {
      const call = { name: "bash", arguments: fromPlain({ command: "sleep 60" }) as JsonObject };
      const result = await world.call(call);
      expect(result).toMatchObject({ endsEpisode: true, isError: true });
      expect(result.text).toMatch(/The task's time of 0.5 seconds is over\.$/);
      expect((await world.grade({ outcome: "completed" })).reward).toBe(0.5);
    });
  });
});

describe.skipIf(!hasBubblewrap())("a hostile task", { timeout: 120_000 }, () => {
  it("with tests that hang is a named failure, and leaves no process", async () => {
    const name = `hang-${process.pid}`;
    const tests = `trap '' TERM INT HUP\nsetsid -f bash -c 'exec -a ${name} sleep 1000'\nexec -a ${name} sleep 1000`;
    const toml = "[environment]\nnetwork_mode = 'no-network'\n[verifier]\ntimeout_sec = 1\n";
    await withWorld(taskFiles(tests, { toml }), async ({ world }) => {
      await expect(world.grade(ending)).rejects.toMatchObject({
        failure: { boundary: "grader", code: "VerifierTimeoutError" },
      });
    });
    expect(processesWith(name)).toEqual([]);
  });

  it("with rewards that are a link, a folder, a pipe or too long earns nothing", async () => {
    const codeOf = (tests: string): Promise<unknown> =>
      withWorld(taskFiles(`cd /logs/verifier; ${tests}`), ({ world }) =>
        world.grade(ending).then(
          (grade) => grade.reward,
          (error: unknown) => (error as AttributedError).failure.code,
        ),
      );
    expect(await codeOf("mkdir reward.json; mkfifo reward.txt")).toBe("RewardFileNotFoundError");
    expect(await codeOf("ln -s /etc/hostname reward.txt")).toBe("RewardFileNotFoundError");
    expect(await codeOf("head -c 100000 /dev/zero | tr '\\0' 1 > reward.txt")).toBe("VerifierOutputParseError");
  });
});
