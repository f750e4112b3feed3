import { describe, expect, test } from "vitest";
import { ConfigurationError } from "../core/failure.ts";
import { parseBaseUrl, showAddress } from "./base-url.ts";

const what = "SGLang server";

function refusal(text: string, path: "keep" | "refuse" = "keep"): string {
  try {
    parseBaseUrl(text, { what, path });
  } catch (error) {
    if (error instanceof ConfigurationError) return error.message;
    throw error;
  }
  return "accepted";
}

describe("parseBaseUrl()", () => {
  test.each([
    ["http://127.0.0.1:30000", "http://127.0.0.1:30000", ""],
    [" http://127.0.0.1:30000/ ", "http://127.0.0.1:30000", ""],
    ["HTTPS://Router.Example:443/", "https://router.example", ""],
    ["http://proxy/sglang//", "http://proxy", "/sglang"],
    ["http://[::1]:30000", "http://[::1]:30000", ""],
  ])("reads %s", (text, origin, path) => {
    expect(parseBaseUrl(text, { what })).toEqual({ origin, path, authorization: null, secrets: [] });
  });

  test("takes credentials out of the address", () => {
    const base = parseBaseUrl("http://ada:p%40ss@host:1/v1", { what });
    expect(base.origin + base.path).toBe("http://host:1/v1");
    expect(base.authorization).toBe(`Basic ${Buffer.from("ada:p@ss").toString("base64")}`);
    expect(base.secrets).toContain("p@ss");
  });

  test.each([
    ["", "it is empty"],
    ["localhost:30000", "the scheme is missing; write http://localhost:30000"],
    ["127.0.0.1:30000", "the scheme is missing"],
    ["ftp://host", 'the scheme is "ftp"; use http or https'],
    ["http://", "it is not a URL"],
    ["http://host:99999", "it is not a URL"],
    ["http://host:0", "port 0"],
    ["http://host/?key=sesame", "it has a query"],
  ])("refuses %j and says why", (text, reason) => {
    expect(refusal(text)).toContain(reason);
  });

  test("refuses a path where none may be, and says what to write", () => {
    expect(refusal("http://host:30000/generate", "refuse")).toBe(
      'Cannot use "http://host:30000/generate" as the address of the SGLang server: it has the path "/generate"; write http://host:30000.',
    );
  });

  test.each([
    "ada:sesame@host:30000",
    "ftp://ada:sesame@host",
    "http://ada:ses/ame@host",
    "http://ada:ses@me?ses#me@host:0",
    "http://host:0/?key=sesame",
    "http://ada:sesame@host:70000",
  ])("never shows the credentials of %j", (text) => {
    expect(refusal(text)).not.toMatch(/ses|ame@|ada/);
  });
});

test("showAddress() bounds what it shows and drops control characters", () => {
  expect(showAddress(`http://h\u001b[31m/${"x".repeat(500)}`)).toHaveLength(200);
  expect(showAddress("http://h\u001b[31m")).toBe("http://h[31m");
});
