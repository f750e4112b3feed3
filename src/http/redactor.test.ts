import { readFileSync } from "node:fs";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createRedactor } from "./redactor.ts";

/** API keys in the formats of providers, and passwords with characters that some encoding changes. */
const secret = fc.oneof(
  fc.stringMatching(/^[A-Za-z0-9_-]{8,60}$/),
  fc.string({ minLength: 8, maxLength: 40, unit: "grapheme" }).filter((text) => text.trim().length >= 8),
  fc.stringMatching(/^[ -~]{8,30}$/),
);

type Spelling = readonly [string, (text: string) => string];
const hexOf = (text: string): string => Buffer.from(text).toString("hex");
const escaped = (text: string): string => JSON.stringify(text).slice(1, -1);
const spellings: readonly Spelling[] = [
  ["as it is", (text) => text],
  ["JSON", escaped],
  ["JSON in JSON", (text) => escaped(escaped(text))],
  ["an address", encodeURIComponent],
  ["an address with small digits", (text) => encodeURIComponent(text).replaceAll(/%../g, (one) => one.toLowerCase())],
  ["a form", (text) => encodeURIComponent(text).replaceAll("%20", "+")],
  [
    "HTML",
    (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;"),
  ],
  ["base64", (text) => Buffer.from(text).toString("base64")],
  ["base64 for addresses", (text) => Buffer.from(text).toString("base64url")],
  ["base64 in an address", (text) => encodeURIComponent(Buffer.from(text).toString("base64"))],
  ["hexadecimal", hexOf],
  ["hexadecimal in capitals", (text) => hexOf(text).toUpperCase()],
];

describe("createRedactor()", () => {
  it.each(spellings)("takes a secret out that is spelled as %s", (_name, spell) => {
    fc.assert(
      fc.property(secret, fc.string(), fc.string(), (one, before, after) => {
        fc.pre(!/\p{Surrogate}/u.test(one));
        const spelled = spell(one);
        const redact = createRedactor([null, "another-secret", one, ""]);
        expect(redact(spelled)).toBe("***");
        const redacted = redact(`${before} ${spelled} ${after} ${spelled}`);
        if (!`${before} ${after}`.includes(spelled)) expect(redacted).not.toContain(spelled);
      }),
    );
  });

  it("takes a secret out of base64 of a longer text, but for the characters that it shares with its neighbours", () => {
    fc.assert(
      fc.property(
        fc.stringMatching(/^[A-Za-z0-9]{12,40}$/),
        fc.stringMatching(/^[a-z:]{0,9}$/),
        fc.stringMatching(/^[a-z:]{0,9}$/),
        fc.constantFrom("base64", "base64url"),
        (one, before, after, alphabet) => {
          const text = Buffer.from(before + one + after).toString(alphabet);
          const redacted = createRedactor([one])(`Basic ${text}`);
          expect(redacted).toContain("***");
          // The remaining characters determine fewer than three characters of the secret.
          const rest = redacted.replace("Basic ", "").replace("***", "").length;
          expect(rest).toBeLessThanOrEqual(Math.ceil(((before.length + after.length) * 4) / 3) + 4);
        },
      ),
    );
  });

  it("finds what a search for each secret finds, wherever secrets overlap or contain another", () => {
    const few = fc.stringMatching(/^[ab]{8,14}$/);
    fc.assert(
      fc.property(
        fc.array(few, { minLength: 1, maxLength: 4 }),
        fc.stringMatching(/^[ab ]{0,80}$/),
        (secrets, text) => {
          const covered = new Set<number>();
          for (const one of secrets) {
            for (let at = text.indexOf(one); at !== -1; at = text.indexOf(one, at + 1)) {
              for (let place = at; place < at + one.length; place++) covered.add(place);
            }
          }
          const expected = text
            .split("")
            .filter((_, place) => !covered.has(place))
            .join("");
          expect(createRedactor(secrets)(text).replaceAll("***", "")).toBe(expected);
        },
      ),
    );
  });

  it("leaves every other text alone, whatever it encodes", () => {
    const redact = createRedactor(["sk-canary-7f3a9", "hunter22"]);
    const source = readFileSync(new URL("redactor.ts", import.meta.url));
    for (const text of [source.toString(), source.toString("base64"), source.toString("hex")]) {
      expect(redact(text)).toBe(text);
    }
    expect(createRedactor([null, ""])("nothing to hide")).toBe("nothing to hide");
  });

  it("takes short secrets as they are, the longest first", () => {
    const redact = createRedactor(["abc", "abcdef", null, ""]);
    expect(redact("key abcdef, key abc, key ab")).toBe("key ***, key ***, key ab");
    expect(redact(Buffer.from("abc").toString("base64"))).toBe("YWJj");
  });
});
