import { createHash, randomBytes, randomUUID } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, it, test } from "vitest";
import { openWorld, post } from "./gateway-world.test-helper.ts";
import { sessionName } from "./session-names.ts";

const names = [
  ...[
    "s1",
    "x",
    "run-12",
    "codex",
    "Claude",
    "weather-17",
    "task_3.attempt-2",
    "agent-a1",
    "GSM8",
    "EMPTY",
    "dummy",
    "conversation12",
  ],
  ...["run-20261126-101500", "openai-agents-chat", "recommendations-4", "not-needed", "my.session", "worker3-s0042"],
];

/** Keys in the formats of providers; none of them is real. */
const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
const random = (length: number, alphabet = letters): string =>
  Array.from(randomBytes(length), (byte) => alphabet[byte % alphabet.length]).join("");
const makers: Readonly<Record<string, () => string>> = {
  openai: () => `sk-proj-${randomBytes(48).toString("base64url")}`,
  anthropic: () => `sk-ant-api03-${randomBytes(60).toString("base64url")}`,
  github: () => `ghp_${random(36)}`,
  "github, fine-grained": () => `github_pat_${random(22)}_${random(59)}`,
  gitlab: () => `glpat-${random(20)}`,
  perplexity: () => `pplx-${random(48)}`,
  groq: () => `gsk_${random(52)}`,
  huggingface: () => `hf_${random(34)}`,
  google: () => `AIza${randomBytes(26).toString("base64url")}`,
  xai: () => `xai-${random(80)}`,
  aws: () => `AKIA${random(16, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567")}`,
  "aws, secret": () => randomBytes(30).toString("base64"),
  azure: () => randomBytes(16).toString("hex"),
  together: () => randomBytes(32).toString("hex"),
  mistral: () => random(32),
  cohere: () => random(40),
  fireworks: () => `fw_${random(22)}`,
  nvidia: () => `nvapi-${randomBytes(48).toString("base64url")}`,
  replicate: () => `r8_${random(37)}`,
  cerebras: () => `csk-${random(48, "abcdefghijklmnopqrstuvwxyz0123456789")}`,
  slack: () => `xoxb-${random(12, "0123456789")}-${random(12, "0123456789")}-${random(24)}`,
  jwt: () => ["{}", "{}", "x".repeat(32)].map((part) => Buffer.from(part).toString("base64url")).join("."),
  telegram: () => `${random(9, "0123456789")}:${random(35)}`,
  card: () => "4111-1111-1111-1111",
  uuid: randomUUID,
  "a password": () => `${random(8)}!${random(3)}`,
  "an e-mail address": () => `${random(6)}@example.com`,
  ours: () => `ta-${randomBytes(24).toString("base64url")}`,
};

describe("sessionName()", () => {
  it.each(names)("is the key where that is a plain name: %s", (name) => {
    expect(sessionName(name)).toBe(name);
  });

  it.each(Object.entries(makers))("is the hash of a key of %s", (_provider, make) => {
    for (let times = 0; times < 2000; times++) {
      const key = make();
      const hash = createHash("sha256").update(key).digest("hex");
      expect(sessionName(key)).toBe(`session-${hash.slice(0, 12)}`);
    }
  });

  it("is the hash of a key that happens to be letters before digits", () => {
    for (const key of ["AKIADHPYDHKTYYI73655", "ASIAABCDEFGHIJK22222", "abcdefghijklmno12345", "Abcdefghijk345"]) {
      expect(sessionName(key)).toMatch(/^session-[0-9a-f]{12}$/);
    }
  });

  it("is short and has no character that a name has not, for any key", () => {
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.string({ unit: "grapheme" }), fc.base64String()), (key) => {
        expect(sessionName(key)).toMatch(/^[A-Za-z0-9][A-Za-z0-9._-]{0,39}$/);
      }),
    );
  });
});

test("the key of a provider stands nowhere: not in the run folder, not in what the gateway says", async () => {
  const { ours, ...foreign } = makers;
  const keys = Object.values(foreign).map((make) => make());
  const world = await openWorld(() => "fine");
  const body = { model: "m", messages: [{ role: "user", content: "a" }] };
  // A key that a gateway issued belongs to a session, and opens no other.
  expect((await post(world.gateway, "/v1/chat/completions", body, { key: ours!() })).status).toBe(401);
  const said: string[] = [];
  const ask = async (path: string, given: object, options: Parameters<typeof post>[3]): Promise<number> => {
    const { status, text, headers } = await post(world.gateway, path, given, options);
    said.push(text, JSON.stringify(headers));
    return status;
  };
  for (const [at, key] of keys.entries()) {
    expect(await ask("/v1/chat/completions", body, { key })).toBe(200);
    expect(await ask("/v1/nothing", {}, { key })).toBe(404);
    await ask(`/s/${encodeURIComponent(key)}`, {}, { key: null });
    if (at % 2 === 0) continue;
    // The session is named by its key, as its client knows it.
    expect(await ask(`/v1/sessions/${encodeURIComponent(key)}/end`, { reward: 1 }, { key: null })).toBe(200);
    expect(await ask("/v1/chat/completions", body, { key })).toBe(400);
  }
  await ask("/v1/sessions", {}, { key: null, method: "GET" });
  const stored = readAll(world.folder);
  await world.close();
  for (const key of keys) {
    for (const text of [...said, ...stored, ...readAll(world.folder)]) expect(text.includes(key)).toBe(false);
  }
});

function readAll(folder: string): string[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => readFileSync(join(entry.parentPath, entry.name), "utf8"));
}
