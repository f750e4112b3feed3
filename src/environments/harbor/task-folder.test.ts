import { mkdirSync, rmSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { readDockerfile } from "./dockerfile.ts";
import { mainReward, readRewards } from "./rewards.ts";
import { readTaskFile } from "./task-file.ts";
import { hashTask, readTasks } from "./task-folder.ts";
import { taskFiles, writeTasks } from "./sandbox.test-helper.ts";

const none = { variables: {} };

describe("readTaskFile()", () => {
  it("has Harbor's defaults, and ignores the version and unknown keys", () => {
    expect(readTaskFile('version = "9.9"\n[future]\na = 1\n', none)).toMatchObject({
      agentSeconds: null,
      verifierSeconds: 600,
      hasNetwork: true,
      workdir: null,
      memoryMb: null,
      refused: [],
    });
    const older = '[environment]\nallow_internet = false\nmemory = "2G"\nstorage = "512M"\n';
    expect(readTaskFile(older, none)).toMatchObject({ hasNetwork: false, memoryMb: 2048, storageMb: 512 });
  });

  it("names everything that the sandbox cannot give", () => {
    const content = `
artifacts = ["/app/x"]
[agent]
user = "builder"
[verifier]
environment_mode = "separate"
[[verifier.collect]]
[environment]
docker_image = "ubuntu:24.04"
os = "windows"
gpus = 1
tpu = "v5e"
skills_dir = "/skills"
network_mode = "allowlist"
allowed_hosts = ["example.org"]
[[environment.mcp_servers]]
[environment.healthcheck]
command = "true"
[[steps]]
name = "first"
`;
    expect(readTaskFile(content, none).refused).toEqual([
      '[environment] docker_image "ubuntu:24.04"',
      '[environment] os "windows"',
      "[environment] gpus",
      "[environment] tpu",
      "[environment] mcp_servers",
      "[environment] skills_dir",
      "[environment.healthcheck]",
      '[agent] user "builder"',
      '[verifier] environment_mode "separate"',
      "[[verifier.collect]]",
      "[[steps]]",
      '[environment] network_mode "allowlist"',
    ]);
  });

  it("reads only the variables that it may read", () => {
    const content = `[environment.env]\nA = "\${NOPE:-other}"\nB = "\${KEY}"\nC = "plain \${KEY}"\n`;
    const { variables, refused } = readTaskFile(content, none);
    expect(variables.environment).toEqual({ A: "other", B: "", C: "plain ${KEY}" });
    expect(refused).toEqual(["the variable KEY in [environment.env]"]);
    expect(readTaskFile(content, { variables: { KEY: "k" } }).variables.environment).toMatchObject({ B: "k" });
  });

  it.each([
    ["[agent]\ntimeout_sec = -1", /timeout_sec/],
    ["[environment]\nmemory = 'much'", /memory is "much", expected a size/],
    ["[environment]\nworkdir = 'app'", /expected an absolute path/],
    ["[environment", /Invalid TOML/],
  ])("refuses %j", (content, message) => {
    expect(() => readTaskFile(content, none)).toThrow(message);
  });
});

describe("readDockerfile()", () => {
  it("reads working folder, variables and copies", () => {
    const content = `# A comment
FROM scratch
ENV A=1 B="two words" \\
  C='3'
ENV D four five
WORKDIR /srv
WORKDIR data
COPY one.txt two.txt ./
COPY ["with space.txt", "/etc/x"]
CMD ["sleep", "1"]
USER root
`;
    expect(readDockerfile(content)).toEqual({
      workdir: "/srv/data",
      variables: { A: "1", B: "two words", C: "3", D: "four five" },
      copies: [
        { from: ["one.txt", "two.txt"], to: "/srv/data/" },
        { from: ["with space.txt"], to: "/etc/x" },
      ],
      refused: [],
    });
  });

  it.each([
    "FROM ubuntu:24.04",
    "RUN apt-get update",
    "ADD https://example.org/a /a",
    "COPY --from=builder /a /a",
    "COPY ../../secret /a",
    "COPY *.txt /a",
    "USER nobody",
    "WORKDIR $HOME",
    "ENTRYPOINT sh",
  ])("refuses %j by name", (line) => {
    expect(readDockerfile(`${line}\n`).refused).toEqual([`"${line}" of its Dockerfile`]);
  });
});

describe("readTasks()", () => {
  it("has the tasks in the order of their names, with ids of folders", () => {
    const folder = writeTasks({ b: taskFiles("true"), a: taskFiles("true"), c: { "notes.md": "none" } });
    const tasks = readTasks(folder, none);
    expect(tasks.map(({ id }) => id)).toEqual(["a", "b"]);
    expect(tasks[0]).toMatchObject({ instruction: "Do it.\n", workingFolder: "/app", hasSolution: false, refused: [] });
    expect(readTasks(join(folder, "b"), none)).toHaveLength(1);
    rmSync(folder, { recursive: true });
  });

  it("follows no link out of a task", () => {
    const folder = writeTasks({
      a: taskFiles("true"),
      b: taskFiles("true", { "environment/Dockerfile": "COPY x/hostname /a" }),
    });
    rmSync(join(folder, "a/instruction.md"));
    symlinkSync("/etc/hostname", join(folder, "a/instruction.md"));
    expect(() => readTasks(folder, none)).toThrow(/task "a" in .*"instruction.md" is not a regular file/);
    rmSync(join(folder, "a"), { recursive: true });
    symlinkSync("/etc", join(folder, "b/environment/x"));
    expect(() => readTasks(folder, none)).toThrow(/copies "x\/hostname", which is behind a link/);
    rmSync(join(folder, "b/environment/x"));
    mkdirSync(join(folder, "b/environment/x"));
    expect(() => readTasks(folder, none)).toThrow(/copies "x\/hostname", which does not exist/);
    rmSync(folder, { recursive: true });
  });

  it("names what is missing", () => {
    const folder = writeTasks({ a: { "task.toml": "" } });
    expect(() => readTasks(folder, none)).toThrow(/it has no folder "environment"; correct the task/);
    expect(() => readTasks(join(folder, "nothing"), none)).toThrow(/name a folder of tasks/);
    expect(() => readTasks(join(folder, "a/task.toml"), none)).toThrow(/name a folder of tasks/);
    rmSync(folder, { recursive: true });
  });

  it("hashes names and contents of all files", () => {
    const folder = writeTasks({
      a: taskFiles("true"),
      b: taskFiles("true"),
      c: taskFiles("false"),
      d: taskFiles("true", { "solution/solve.sh": "" }),
    });
    const [a, b, c, d] = ["a", "b", "c", "d"].map((name) => hashTask(join(folder, name)));
    expect(a).toBe(b);
    expect(new Set([a, c, d]).size).toBe(3);
    rmSync(folder, { recursive: true });
  });
});

describe("readRewards()", () => {
  const text = (content: string) => readRewards({ type: "text", content });
  const json = (content: string) => readRewards({ type: "json", content });
  const codeOf = (action: () => unknown): string => {
    try {
      return JSON.stringify(action());
    } catch (error) {
      return (error as { readonly failure: { readonly code: string } }).failure.code;
    }
  };

  // Measured with harbor 0.25.0; infinite numbers by its code.
  it.each([
    ["0.5\n", 0.5],
    [" 0.25 \n\n", 0.25],
    ["1_0", 10],
    ["-3.5", -3.5],
    [".5", 0.5],
    ["5.", 5],
    ["+1e-2", 0.01],
  ])("reads %j like Python's float()", (content, reward) => {
    expect(text(content)).toEqual({ reward });
  });

  it.each(["nan", "inf", "one", "1__0", "_1", "0x10", "1e999", " ", ".", "1 2"])("refuses %j", (content) => {
    expect(codeOf(() => text(content))).toBe("VerifierOutputParseError");
  });

  it("has Harbor's names for files without rewards", () => {
    expect(codeOf(() => readRewards(null))).toBe("RewardFileNotFoundError");
    expect(codeOf(() => text(""))).toBe("RewardFileEmptyError");
    expect(codeOf(() => json(""))).toBe("RewardFileEmptyError");
    expect(codeOf(() => json("0.5"))).toBe("ValidationError");
    expect(codeOf(() => json("[1]"))).toBe("VerifierOutputParseError");
    expect(codeOf(() => json('{"reward": "1"}'))).toBe("VerifierOutputParseError");
    expect(codeOf(() => json('{"reward": {"a": 1}}'))).toBe("VerifierOutputParseError");
    expect(codeOf(() => json('{"reward": NaN}'))).toBe("VerifierOutputParseError");
    expect(codeOf(() => json("{"))).toBe("VerifierOutputParseError");
  });

  it("takes the reward of that name, or the only one", () => {
    expect(json('{"reward": 0.9, "style": 2}')).toEqual({ reward: 0.9, style: 2 });
    expect(mainReward(json('{"style": 2, "reward": true}'))).toBe(1);
    expect(mainReward(json('{"style": 2}'))).toBe(2);
    expect(codeOf(() => mainReward(json("{}")))).toBe("NoRewardError");
    expect(codeOf(() => mainReward(json('{"a": 1, "b": 3}')))).toBe("NoRewardError");
  });
});
