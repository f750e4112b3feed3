import { describe, expect, it } from "vitest";
import { areOwnServers } from "./choose-engine.ts";

const nowhere = { engine: null, url: null, host: null, port: null };

describe("areOwnServers", () => {
  it("compares scheme, host and port, and wants every server to be among those of the settings", () => {
    const two = { ...nowhere, url: "https://a:1/x, http://b/?key=1" };
    for (const urls of ["https://a:1", "https://A:1/y", "http://b:80", "http://b,https://a:1"]) {
      expect(areOwnServers(urls, two), urls).toBe(true);
    }
    for (const urls of ["http://a:1", "https://a:2", "https://a.b:1", "https://a:1,http://c"]) {
      expect(areOwnServers(urls, two), urls).toBe(false);
    }
    expect(() => areOwnServers("https://a:1@evil", two)).toThrow("it contains a user name or password");
  });

  it("knows where the server is that is not named", () => {
    expect(areOwnServers("http://127.0.0.1:30000", nowhere)).toBe(true);
    expect(areOwnServers("http://127.0.0.1:8000", nowhere)).toBe(false);
    expect(areOwnServers("http://127.0.0.1:8000", { ...nowhere, engine: "vllm" })).toBe(true);
    expect(areOwnServers("http://[::1]:5", { ...nowhere, host: "::1", port: 5 })).toBe(true);
  });
});
