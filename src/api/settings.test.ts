import { describe, expect, it } from "vitest";
import { ConfigurationError } from "../core/index.ts";
import { findPreset, presetDefaults, resolveSettings, settingsJson } from "./resolve-settings.ts";
import { parseConfig, settingsYaml } from "./config-file.ts";
import { rolloutSettings, settingNames, isTaskList, readTaskList } from "./rollout-settings.ts";
import { keyOf, readValue } from "../parts/setting.ts";

const split = { environment: "desk", split: "test", size: 20 };

describe("resolveSettings()", () => {
  it("lets flags win over the file and the file over the defaults", () => {
    const file = parseConfig("group-size: 4\ntemperature: 0.5\ntasks: [1, 2, 5-7]\nseed-turns: true\n", "run.yaml");
    const settings = resolveSettings({ temperature: "0.25" }, file);
    expect(settings).toMatchObject({
      groupSize: 4,
      temperature: 0.25,
      tasks: "1,2,5-7",
      seedTurns: true,
      topP: 1,
    });
  });

  it("puts the mode without a user into the environment's name, once", () => {
    const solo = { env: "tau2-bench/telecom-solo", solo: true };
    expect(resolveSettings({ env: "tau2-bench/telecom", solo: true }, null)).toMatchObject(solo);
    // A resumed run has the name in this form.
    expect(resolveSettings(solo, null)).toMatchObject(solo);
  });

  it("samples from the policy itself unless told otherwise", () => {
    expect(resolveSettings({}, null)).toMatchObject({ temperature: 1, topP: 1, topK: -1, minP: 0, maxTurns: 30 });
  });

  it("takes what a preset names below file and flags, and refuses a preset that is none", () => {
    const defaults = presetDefaults("tau-bench");
    expect(resolveSettings({}, null, defaults)).toMatchObject({
      temperature: 0,
      topP: 1,
      maxTurns: 30,
      user: "llm",
      userModel: "openai/gpt-4o",
      userCompat: "upstream",
    });
    const file = parseConfig("user-model: my-model\nmax-turns: 12\n", "run.yaml");
    expect(resolveSettings({ temperature: "1" }, file, defaults)).toMatchObject({
      temperature: 1,
      maxTurns: 12,
      user: "llm",
      userModel: "my-model",
    });
    expect(() => presetDefaults("tau")).toThrow("it does not exist; use one of slime-tau, tau-bench");
    expect(findPreset("tau-bench")).toBeNull();
  });

  it("every default fits its own schema, and every flag is the name of its setting", () => {
    for (const name of settingNames) {
      const { schema, default: value, flag } = rolloutSettings[name];
      expect(schema.safeParse(value).success).toBe(true);
      expect(flag.split(" ")[0]).toBe(`--${keyOf(name)}`);
    }
  });

  it("names the flag, the value and what is needed", () => {
    const wrong = (flags: Parameters<typeof resolveSettings>[0]): string => {
      try {
        resolveSettings(flags, null);
      } catch (error) {
        expect(error).toBeInstanceOf(ConfigurationError);
        return (error as Error).message;
      }
      return "";
    };
    expect(wrong({ groupSize: "0" })).toBe(
      'Cannot use --group-size: it is "0", expected a whole number of at least 1.',
    );
    expect(wrong({ concurrency: "1e99" })).toContain("--concurrency");
    expect(wrong({ topK: "0" })).toContain("-1 or a whole number of at least 1");
    expect(wrong({ temperature: "" })).toContain("--temperature");
    expect(wrong({ temperature: "0x10" })).toContain("--temperature");
    expect(wrong({ tasks: "5-1" })).toContain("a list like 0-49,60");
    expect(wrong({ engine: "tgi" })).toContain("sglang, vllm, llama-cpp, embedded, expert or none");
    expect(wrong({ samplingExtra: "{canary" })).not.toContain("canary");
  });

  it("points into the file", () => {
    const file = parseConfig("seed: 3\nconcurrency:\n  - many\n", "conf/run.yaml");
    expect(() => resolveSettings({}, file)).toThrow('Cannot use "concurrency" at conf/run.yaml:3:3: it is ["many"]');
  });
});

describe("parseConfig()", () => {
  it("refuses what is not YAML, not settings, or no setting, with line and column", () => {
    expect(() => parseConfig("a: [1\nb: 2", "x.yaml")).toThrow(
      /Cannot read x\.yaml:\d+:\d+: it is not YAML .*; write one "name: value" per line/,
    );
    expect(() => parseConfig("- 1", "x.yaml")).toThrow("x.yaml:1:1: these are not settings; write one");
    expect(() => parseConfig("seed: 1\ngrop-size: 2", "x.yaml")).toThrow(
      'x.yaml:2:1: there is no setting "grop-size"; did you mean "group-size"?',
    );
    expect(() => parseConfig("seed: 1\nseed: 2", "x.yaml")).toThrow("x.yaml:2:1");
  });

  it("refuses a key and does not repeat it", () => {
    expect(() => parseConfig("api-key: canary", "x.yaml")).toThrow('write "api-key-env: NAME"');
    expect(() => parseConfig("api-key: canary", "x.yaml")).not.toThrow("canary");
  });

  it("takes an empty file, and an empty value as not given", () => {
    expect(parseConfig("", "x.yaml").values.size).toBe(0);
    expect(parseConfig("url:\nseed: 1", "x.yaml").values.size).toBe(1);
  });
});

describe("settingsYaml()", () => {
  it("gives the same settings back through a configuration file", () => {
    const settings = resolveSettings({ tasks: "7", env: "./a b.ts", samplingExtra: '{"ignore_eos": true}' }, null);
    expect(resolveSettings({}, parseConfig(settingsYaml(settings), "x.yaml"))).toEqual(settings);
  });

  it("shows addresses without credentials", () => {
    const settings = resolveSettings({ url: "http://me:canary@host:1/", userUrl: "http://x/v1?key=canary" }, null);
    expect(settingsYaml(settings)).not.toContain("canary");
    expect(settingsJson(settings).get("url")).toBe("http://***@host:1/");
  });
});

describe("readTaskList()", () => {
  it("reads ranges in their order, each index once", () => {
    expect(readTaskList("3-5, 0,4", split)).toEqual([3, 4, 5, 0]);
    expect(readTaskList("all", { ...split, size: 3 })).toEqual([0, 1, 2]);
  });

  it("refuses an index that the split does not have", () => {
    expect(() => readTaskList("0-20", split)).toThrow('desk has 20 tasks in split "test", 0 to 19');
  });

  it("knows a list when it sees one", () => {
    expect(["0", "0-0", "1,2", "all", " 3 - 4"].map(isTaskList)).toEqual([true, true, true, true, false]);
    expect(["", "-1", "a", "2-1", "1,", "1..2"].map(isTaskList)).toEqual(Array(6).fill(false));
  });
});

describe("readValue()", () => {
  it.each([
    ["engine", "sglan", '"sglang"'],
    ["keepOrder", "finishd", '"finished"'],
    ["thinking", "onn", '"on"'],
    ["metrics", "tensorbord", '"tensorboard"'],
    ["metrics", "wandb,mlflw:http://127.0.0.1:5000", '"mlflow"'],
  ] as const)("proposes what %s %j meant", (name, value, meant) => {
    expect(() => readValue<unknown>(rolloutSettings[name], value, `--${keyOf(name)}`)).toThrow(
      new RegExp(`; did you mean ${meant}\\?$`),
    );
  });

  it("proposes nothing for a value that is near to no name, nor for a secret", () => {
    expect(() => readValue<unknown>(rolloutSettings.engine, "banana", "--engine")).toThrow(/, expected [^;]+\.$/);
    expect(() => readValue<unknown>(rolloutSettings.tasks, "al", "--tasks")).toThrow(/, expected [^;]+\.$/);
  });
});
