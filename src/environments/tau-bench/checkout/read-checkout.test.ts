import { mkdir, rm, symlink } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";

import { ConfigurationError } from "../../../core/index.ts";
import type { UserPrompts } from "../../../users/index.ts";
import { isTauBenchCheckout, readTauBenchCheckout, loadFewShotDisplays, loadUserPrompts } from "./read-checkout.ts";
import { withFolder } from "../../checkout/with-folder.test-helper.ts";
import { smallCheckout } from "./small-checkout.test-helper.ts";

const withFile = (path: string, content: string | Uint8Array): ReadonlyMap<string, string | Uint8Array> =>
  new Map<string, string | Uint8Array>([...smallCheckout, [path, content]]);

const without = (path: string): ReadonlyMap<string, string> =>
  new Map([...smallCheckout].filter(([name]) => name !== path));

async function refusal(folder: string): Promise<string> {
  const error = await readTauBenchCheckout(folder).then(
    () => null,
    (thrown: unknown) => thrown,
  );
  expect(error).toBeInstanceOf(ConfigurationError);
  return error instanceof Error ? error.message : "";
}

describe("readTauBenchCheckout()", () => {
  it("gives every file of the prepared layout, tables and guidelines as they are", async () => {
    await withFolder(smallCheckout, async (folder) => {
      const lines: string[] = [];
      const files = await readTauBenchCheckout(folder, { onProgress: (line) => lines.push(line) });
      expect([...files.keys()]).toEqual([
        ...["users.json", "orders.json", "products.json", "wiki.md", "rules.json", "tools.json"].map(
          (n) => `retail/${n}`,
        ),
        ...["tasks_train.json", "tasks_test.json", "tasks_dev.json", "few_shot.jsonl"].map((n) => `retail/${n}`),
        ...["users.json", "flights.json", "reservations.json", "wiki.md", "rules.json"].map((n) => `airline/${n}`),
        ...["tools.json", "tasks_test.json"].map((n) => `airline/${n}`),
        "user_prompts.json",
      ]);
      expect(files.get("retail/users.json")).toBe('{ "users_1": {"price": 247.0 } }\n');
      expect(files.get("retail/wiki.md")).toBe("# retail\r\n");
      expect(files.get("airline/rules.json")).toBe('[\n "Be kind.",\n "Be brief."\n]\n');
      expect(files.get("airline/tools.json")?.indexOf('"think"')).toBeLessThan(
        files.get("airline/tools.json")?.indexOf('"mend"') ?? 0,
      );
      expect(files.get("airline/tasks_test.json")).toContain('\n  "outputs": []\n }\n]\n');
      expect(lines).toHaveLength(2);
    });
  });

  it("reads only the domains that are asked for", async () => {
    await withFolder(smallCheckout, async (folder) => {
      const files = await readTauBenchCheckout(folder, { domains: ["airline"] });
      expect([...files.keys()].filter((path) => path.startsWith("retail/"))).toEqual([]);
      expect(files.has("airline/wiki.md")).toBe(true);
    });
  });

  it("refuses a folder that is not a checkout, and says what is missing", async () => {
    await withFolder(new Map([["retail/wiki.md", ""]]), async (folder) => {
      expect(await isTauBenchCheckout(folder)).toBe(false);
      expect(await isTauBenchCheckout(join(folder, "nowhere"))).toBe(false);
      expect(await refusal(folder)).toContain('it has no file "tau_bench/envs/user.py"');
    });
  });

  it.each([
    ["a missing source", without("tau_bench/envs/retail/tasks_dev.py"), "retail/tasks_dev.py", "there is no such file"],
    ["a missing tool", without("tau_bench/envs/retail/tools/mend.py"), "tools/mend.py", "there is no such file"],
    ["a missing table", without("tau_bench/envs/airline/data/users.json"), "users.json", "there is no such file"],
    [
      "a damaged table",
      withFile("tau_bench/envs/retail/data/users.json", "{\n}\n}"),
      "users.json",
      "line 3: this is not JSON",
    ],
    [
      "a table of another kind",
      withFile("tau_bench/envs/retail/data/users.json", "[]"),
      "users.json",
      "a table is an object",
    ],
    [
      "a source that is not a string",
      withFile("tau_bench/envs/retail/rules.py", Uint8Array.of(0xff)),
      "rules.py",
      "not valid UTF-8",
    ],
    [
      "a changed source",
      withFile("tau_bench/envs/retail/rules.py", "RULES = f()"),
      "rules.py",
      "line 1: this is not a list",
    ],
    [
      "damaged displays",
      withFile("few_shot_data/MockRetailDomainEnv-few_shot.jsonl", '{"messages_display": "a"}\n\n'),
      "few_shot.jsonl",
      "line 2",
    ],
    [
      "displays of another kind",
      withFile("few_shot_data/MockRetailDomainEnv-few_shot.jsonl", "{}"),
      "few_shot.jsonl",
      'no text "messages_display"',
    ],
  ])("refuses %s by name", async (_what, files, name, problem) => {
    await withFolder(files, async (folder) => {
      const message = await refusal(folder);
      expect(message).toContain(name);
      expect(message).toContain(problem);
      expect(message).toMatch(/; take the sources of commit \w{12}\.$/);
    });
  });

  it("refuses a link that leads out of the checkout, and reads one that does not", async () => {
    const path = "tau_bench/envs/retail/wiki.md";
    await withFolder(without(path), async (folder) => {
      await withFolder(new Map([["secret.txt", "secret"]]), async (elsewhere) => {
        await symlink(join(elsewhere, "secret.txt"), join(folder, path));
        expect(await refusal(folder)).toContain("a link that leads out of the checkout");
      });
      await rm(join(folder, path));
      await symlink(join(folder, "tau_bench/envs/airline/wiki.md"), join(folder, path));
      expect((await readTauBenchCheckout(folder)).get("retail/wiki.md")).toBe("# airline\r\n");
    });
  });

  it("refuses a folder in the place of a file", async () => {
    await withFolder(without("tau_bench/envs/retail/wiki.md"), async (folder) => {
      await mkdir(join(folder, "tau_bench/envs/retail/wiki.md"));
      expect(await refusal(folder)).toContain("it is not a file");
    });
  });

  it("stops when it is told to", async () => {
    await withFolder(smallCheckout, async (folder) => {
      await expect(readTauBenchCheckout(folder, { signal: AbortSignal.abort() })).rejects.toThrow("aborted");
    });
  });
});

describe("loadUserPrompts() and loadFewShotDisplays()", () => {
  it("read the same from a checkout and from a prepared folder", async () => {
    await withFolder(smallCheckout, async (checkout) => {
      const files = await readTauBenchCheckout(checkout);
      await withFolder(files, async (prepared) => {
        for (const folder of [checkout, prepared]) {
          // The loaded prompts fit the type that `users` accepts.
          const prompts: UserPrompts | null = await loadUserPrompts(folder);
          expect(prompts?.reactSystem("Buy.")).toBe("Think first. Buy.");
          expect(prompts?.check({ instruction: "I", transcript: "T", response: "R" })).toBe("Fit? T / R");
          expect(await loadFewShotDisplays(folder, "retail")).toEqual(["user: hi", "user: ho"]);
          expect(await loadFewShotDisplays(folder, "airline")).toBeNull();
        }
      });
    });
  });

  it("find nothing in a folder without them", async () => {
    await withFolder(new Map([["retail/wiki.md", ""]]), async (folder) => {
      expect(await loadUserPrompts(folder)).toBeNull();
      expect(await loadFewShotDisplays(folder, "retail")).toBeNull();
    });
  });
});
