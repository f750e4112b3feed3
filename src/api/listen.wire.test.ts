import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { serveEnvironment } from "./env-server.ts";
import { gateway } from "./gateway.ts";
import { listenSettings, readAddress, readListen } from "./listen.ts";
import { serve } from "./serve.ts";
import { view } from "./view.ts";

const settings = listenSettings("The server", 8800, "where requests come in");

describe("readListen()", () => {
  it.each([
    [{}, "127.0.0.1", 8800],
    [{ listen: "0.0.0.0:9000" }, "0.0.0.0", 9000],
    [{ port: "9000" }, "127.0.0.1", 9000],
    [{ port: 0 }, "127.0.0.1", 0],
    [{ host: "0.0.0.0" }, "0.0.0.0", 8800],
    [{ host: "::1", port: 9000 }, "::1", 9000],
    [{ host: "[::1]", port: 9000 }, "::1", 9000],
    [{ listen: "[::1]:9000" }, "::1", 9000],
  ])("%j listens there", (options, host, port) => {
    expect(readListen(settings, options)).toEqual({ host, port });
  });

  it.each([
    [{ listen: "127.0.0.1:1", port: 2 }, "Cannot use --listen with --host or --port"],
    [{ listen: "127.0.0.1:1", host: "::1" }, "Cannot use --listen with --host or --port"],
    [{ listen: "9000" }, 'Cannot use --listen "9000": expected an address like 127.0.0.1:8800.'],
    [{ port: "high" }, 'Cannot use --port: it is "high", expected a whole number from 0 to 65535.'],
    [{ port: 65_536 }, "Cannot use --port"],
    [{ host: "a b" }, "Cannot use --host"],
    [{ host: "http://x" }, "Cannot use --host"],
  ])("%j is refused", (options, message) => {
    expect(() => readListen(settings, options)).toThrow(message);
  });

  it("reads what it is given by its own name", () => {
    expect(() => readAddress("x", "--health")).toThrow('Cannot use --health "x"');
  });
});

it("port is where our server listens, whatever engine a policy has", async () => {
  const cwd = await mkdtemp(join(tmpdir(), "listen-"));
  const env = await serveEnvironment({ env: "bookshop", port: 0, host: "localhost" });
  const service = await serve({ env: "bookshop", port: 0, out: "service", cwd });
  const policy = await gateway({ engine: "expert", port: 0, out: "gateway", cwd });
  const viewer = await view({ sources: ["service"], port: 0, cwd, variables: {} });
  const servers = [env, service, policy, viewer];
  try {
    for (const { url } of servers) expect(url).toMatch(/^http:\/\/(127\.0\.0\.1|localhost):\d{4,5}\/?$/);
    expect(new Set(servers.map(({ url }) => url)).size).toBe(4);
  } finally {
    for (const server of servers) await server.close();
  }
});
