import { expect, test } from "vitest";

import { findCoupledScripts, readManifest } from "./manifest.mjs";

test("findCoupledScripts() refuses scripts that npm runs before or after others", () => {
  expect([...findCoupledScripts({ train: "", pretrain: "", "test:full": "", "posttest:full": "" })]).toEqual([
    'package.json: npm runs the script "pretrain" before every "npm run train": give it another name.',
    'package.json: npm runs the script "posttest:full" after every "npm run test:full": give it another name.',
  ]);
});

test("findCoupledScripts() accepts names that belong to nothing, and those that npm runs when it packs", () => {
  expect([...findCoupledScripts({ pretrain: "", preview: "", pack: "", prepack: "", prepare: "" })]).toEqual([]);
  expect([...findCoupledScripts(readManifest().scripts)]).toEqual([]);
});
