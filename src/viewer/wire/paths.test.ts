import fc from "fast-check";
import { expect, it } from "vitest";
import { wellFormed } from "../../lib/text.ts";
import { apiPath } from "./paths.ts";

const text = fc.string({ unit: fc.oneof(fc.string({ unit: "binary", maxLength: 2 }), fc.constantFrom("\ud800", "\udfff", "😀", "/", "?", "#", "%")) }); // prettier-ignore

it("addresses of the page hold any text, half characters included, and give back what is well-formed", () => {
  fc.assert(
    fc.property(text, (one) => {
      const whole = wellFormed(one);
      expect(Buffer.from(whole).toString()).toBe(whole);
      if (Buffer.from(one).toString() === one) expect(whole).toBe(one);
      expect(decodeURIComponent(encodeURIComponent(whole))).toBe(whole);
      const query = new URLSearchParams(apiPath("rows", { task: one }).split("?")[1]);
      expect(query.get("task") ?? "").toBe(whole);
    }),
  );
});
