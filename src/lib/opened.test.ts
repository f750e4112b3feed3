import { describe, expect, it } from "vitest";
import { Opened } from "./opened.ts";

describe("Opened", () => {
  it("closes the last first, each once, and all of them whatever one does", async () => {
    const closed: number[] = [];
    const opened = new Opened();
    for (const place of [1, 2, 3]) {
      opened.add(async () => {
        closed.push(place);
        if (place > 1) throw new Error(`no ${place}`);
      });
    }
    await expect(opened.close()).rejects.toThrow("no 3");
    await opened.close();
    expect(closed).toEqual([3, 2, 1]);
  });

  it("abandons what hangs, and never rejects", async () => {
    const closed: string[] = [];
    const opened = new Opened();
    opened.add(() => closed.push("first"));
    opened.add(() => new Promise(() => undefined));
    opened.add(() => {
      throw new Error("no");
    });
    await opened.abandon(20);
    expect(closed).toEqual([]);
    const quick = new Opened();
    quick.add(() => closed.push("second"));
    await quick.abandon(60_000);
    expect(closed).toEqual(["second"]);
  });
});
