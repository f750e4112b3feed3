import fc from "fast-check";
import { describe, expect, it, test } from "vitest";
import { credentialIn } from "./credentials.ts";
import { openWorld, send } from "./gateway-world.test-helper.ts";
import { GatewayError } from "./request.ts";

const key = fc.stringMatching(/^[A-Za-z0-9._~+/=-]{1,40}$/);
const empty = fc.constantFrom(undefined, "", " ", [] as string[], ["", ""], ",");
const emptyBearer = fc.constantFrom(undefined, "", "Bearer", "Bearer ", "bearer", ["Bearer ", ""]);

describe("credentialIn()", () => {
  it("is the one credential that a request has, in any header and however often", () => {
    const scheme = fc.constantFrom("Bearer ", "bearer ", "BEARER  ");
    fc.assert(
      fc.property(
        key,
        scheme,
        fc.subarray(["authorization", "x-api-key", "api-key", "x-goog-api-key"]),
        fc.boolean(),
        (one, bearer, carriers, twice) => {
          const headers = Object.fromEntries(
            carriers.map((carrier) => {
              const value = carrier === "authorization" ? bearer + one : one;
              return [carrier, twice ? [value, value] : value];
            }),
          );
          expect(credentialIn(headers)).toBe(carriers.length === 0 ? null : one);
        },
      ),
    );
  });

  it("is in the query where a dialect has it there, and equal to that of the headers", () => {
    fc.assert(
      fc.property(key, key, (one, other) => {
        expect(credentialIn({}, one)).toBe(one);
        expect(credentialIn({}, "")).toBeNull();
        expect(credentialIn({ "x-goog-api-key": one }, one)).toBe(one);
        const differ = (): unknown => credentialIn({ "x-goog-api-key": one }, other);
        if (one === other) expect(differ()).toBe(one);
        else expect(differ).toThrow('"x-goog-api-key" and "?key=" hold different credentials');
      }),
    );
  });

  it("takes an empty header for none", () => {
    fc.assert(
      fc.property(key, emptyBearer, empty, empty, (one, authorization, first, second) => {
        expect(credentialIn({ authorization, "x-api-key": first, "api-key": second })).toBeNull();
        expect(credentialIn({ authorization, "x-api-key": one, "api-key": second })).toBe(one);
        expect(credentialIn({ authorization: `Bearer ${one}`, "x-api-key": first, "api-key": second })).toBe(one);
      }),
    );
  });

  it("refuses two that differ, in two headers or one, and repeats neither", () => {
    fc.assert(
      fc.property(fc.tuple(key, key), fc.constantFrom(0, 1, 2, 3, 4, 5), ([one, other], place) => {
        fc.pre(one !== other && one.length > 8 && other.length > 8);
        const pairs = [
          { authorization: `Bearer ${one}`, "x-api-key": other },
          { authorization: `Bearer ${one}`, "api-key": other },
          { "x-api-key": one, "api-key": other },
          { authorization: [`Bearer ${one}`, `Bearer ${other}`] },
          { authorization: `Bearer ${one}, Bearer ${other}` },
          { authorization: `Basic ${one}`, "x-api-key": other },
        ];
        let error: unknown;
        try {
          credentialIn(pairs[place]!);
        } catch (caught) {
          error = caught;
        }
        expect(error).toBeInstanceOf(GatewayError);
        expect(error).toMatchObject({ status: 401 });
        expect((error as GatewayError).message).not.toContain(one);
        expect((error as GatewayError).message).not.toContain(other);
      }),
    );
  });

  it("takes no other scheme of authorization for a key", () => {
    expect(credentialIn({ authorization: "Basic czE6" })).toBeNull();
    expect(credentialIn({ authorization: "s1" })).toBeNull();
  });
});

test("a request with two credentials opens no session, of whichever dialect and whichever is the token", async () => {
  const world = await openWorld(() => "fine");
  const messages = [{ role: "user", content: "a" }];
  const bodies: Readonly<Record<string, object>> = {
    "/v1/chat/completions": { model: "m", messages },
    "/v1/messages": { model: "m", max_tokens: 50, messages },
    "/v1/messages/count_tokens": { model: "m", messages },
    "/v1/responses": { model: "m", input: "a" },
    "/v1/completions": { model: "m", prompt: [1, 2] },
  };
  const post = (url: string, headers: Readonly<Record<string, string>>, body: object) =>
    send(world.gateway, { method: "POST", url, headers: { "content-type": "application/json", ...headers }, body });
  for (const [url, body] of Object.entries(bodies)) {
    const different = await post(url, { authorization: "Bearer first", "x-api-key": "second" }, body);
    expect([different.status, different.text.includes("different credentials")]).toEqual([401, true]);
    expect(world.gateway.sessions).toEqual([]);
  }
  for (const [url, body] of Object.entries(bodies)) {
    const equal = await post(url, { authorization: "Bearer same", "x-api-key": "same", "api-key": "" }, body);
    expect([url, equal.status]).toEqual([url, 200]);
  }
  // A client that requires an API key may send any key if the path has the key of its session, but
  // not the key of another session.
  const chat = "/v1/chat/completions";
  const inPath = (headers: Readonly<Record<string, string>>) => post(`/s/second${chat}`, headers, bodies[chat]!);
  expect((await inPath({ authorization: "Bearer unused" })).status).toBe(200);
  expect((await inPath({ authorization: "Bearer second", "x-api-key": "" })).status).toBe(200);
  expect((await inPath({ "x-api-key": "same" })).status).toBe(401);
  expect((await inPath({ authorization: "Bearer unused", "x-api-key": "other" })).status).toBe(401);
  expect(world.gateway.sessions.map(({ id }) => id)).toEqual(["same", "second"]);
  await world.close();
});

test("the token is not taken beside another credential", async () => {
  const world = await openWorld(() => "fine", { token: "the-token" });
  const list = (headers: Readonly<Record<string, string>>) =>
    send(world.gateway, { method: "GET", url: "/v1/sessions", headers, body: null });
  expect((await list({ authorization: "Bearer the-token" })).status).toBe(200);
  expect((await list({ authorization: "Bearer the-token", "x-api-key": "the-token" })).status).toBe(200);
  expect((await list({ authorization: "Bearer the-token", "x-api-key": "another" })).status).toBe(401);
  expect((await list({ "x-api-key": "another" })).status).toBe(401);
  await world.close();
});
