import { describe, expect, it } from "vitest";
import { connectNatsWorker, parseNatsAddress } from "./index.ts";
import { loadNatsLibrary } from "./nats-library.ts";

describe("parseNatsAddress()", () => {
  it("reads servers, user and queue", () => {
    expect(parseNatsAddress("nats://127.0.0.1")).toEqual({
      servers: ["127.0.0.1:4222"],
      isTls: false,
      user: null,
      password: null,
      token: null,
      queue: "default",
      shown: "nats://127.0.0.1:4222/default",
      secrets: [],
    });
    expect(parseNatsAddress(" tls://ann:p%40ss%2Cword@a:1/team_1, tls://[::1]:4223 ")).toEqual({
      servers: ["a:1", "[::1]:4223"],
      isTls: true,
      user: "ann",
      password: "p@ss,word",
      token: null,
      queue: "team_1",
      shown: "tls://a:1,[::1]:4223/team_1",
      secrets: ["ann", "p@ss,word"],
    });
    expect(parseNatsAddress("nats://s3cret@a").token).toBe("s3cret");
  });

  it.each([
    ["", "an address in it is empty"],
    ["nats://a,,nats://b", "an address in it is empty"],
    ["127.0.0.1:4222", "the scheme is missing"],
    ["redis://a", 'the scheme is "redis"'],
    ["nats://", "it names no host"],
    ["nats://a:99999", "it is not a URL"],
    ["nats://a?tls=1", "it has a query"],
    ["nats://a/team.1", "the name of its queue"],
    ["nats://a/*", "the name of its queue"],
    [`nats://a/${"x".repeat(65)}`, "the name of its queue"],
    ["nats://a/one,nats://b/two", "it names two queues"],
    ["nats://a:b@a,nats://c:d@b", "it names two users"],
    ["nats://a,tls://b", "some servers have TLS"],
  ])("refuses %j", (text, state) => {
    expect(() => parseNatsAddress(text)).toThrow(`as the address of a queue: ${state}`);
  });

  it("shows no credentials in what it refuses", () => {
    const texts = ["nats://ann:s3cret,word@a/b c", "nats://ann:s3cret@a/*", "http://ann:s3cret@a", "ann:s3cret@a"];
    for (const text of texts) {
      expect(() => parseNatsAddress(text)).toThrow(/^(?!.*s3cret).*as the address of a queue/);
    }
  });
});

describe("the library", () => {
  const missing = Object.assign(new Error("Cannot find package"), { code: "ERR_MODULE_NOT_FOUND" });
  const install = 'run "npm install @nats-io/transport-node@3 @nats-io/jetstream@3".';

  it("is found beside the package", async () => {
    expect(typeof (await loadNatsLibrary()).connect).toBe("function");
  });

  it.each([
    ["is not installed", () => Promise.reject(missing), "it is not installed"],
    ["does not load", () => Promise.reject(new Error("broken")), "it does not load (broken)"],
    ["is another", () => Promise.resolve({ connect: 1 }), "it has no connect and no createInbox"],
  ])("says what to install when it %s", async (_, load, state) => {
    await expect(loadNatsLibrary(load)).rejects.toThrow(state);
    await expect(loadNatsLibrary(load)).rejects.toThrow(install);
  });
});

describe("a broker that is not there", () => {
  const handlers = { onControl: () => undefined, onNotice: () => undefined };

  it("is a mistake of configuration after a while", async () => {
    const connecting = connectNatsWorker(handlers, { address: "nats://ann:s3cret@127.0.0.1:1", waitMs: 0 });
    await expect(connecting).rejects.toThrow(
      /^Cannot reach the broker at nats:\/\/127.0.0.1:1\/default: connection refused.*; start nats-server -js there, or correct --queue\.$/,
    );
  });
});
