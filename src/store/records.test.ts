// `run.json` and `train.json` from a reader's side: our own fields, and other programs' values in
// their place.

import { describe, expect, it } from "vitest";
import { fromPlain } from "../python-semantics/json/index.ts";
import type { JsonObject } from "../python-semantics/json/value.ts";
import { runFacts, trainManifest } from "./index.ts";

const jsonObject = (value: object): JsonObject => fromPlain(value) as JsonObject;

describe("runFacts()", () => {
  it("reads what a run says of itself", () => {
    const manifest = jsonObject({
      format: 4,
      status: "done",
      model: { folder: "Qwen3-4B", vocabularySize: 151_936 },
      configuration: { "group-size": 8 },
    });
    const facts = runFacts(manifest);
    expect(facts).toMatchObject({ format: 4, status: "done", model: { folder: "Qwen3-4B", vocabularySize: 151_936 } });
    expect(facts.configuration?.get("group-size")).toBe(8);
  });

  it("has null for what another program did not write", () => {
    const { id, agent, model } = runFacts(jsonObject({ format: 4, model: { folder: null } }));
    expect([id, agent, model?.renderer]).toEqual([null, null, null]);
  });

  it("has null for what another program says in its own way, and needs a format", () => {
    const manifest = jsonObject({ format: 4, status: "finished", model: "my-model", totals: [1], environment: 3 });
    const { status, model, totals, environment } = runFacts(manifest);
    expect([status, model, totals, environment]).toEqual([null, null, null, null]);
    expect(() => runFacts(jsonObject({ status: "done" }))).toThrow("run.json.format: it is nothing, expected a number");
  });
});

describe("train.json", () => {
  it("is read like run.json", () => {
    const { learning, threads, configuration } = trainManifest.read(
      jsonObject({ learning: { algorithm: "grpo" }, threads: "all" }),
      "train.json",
    );
    expect(learning?.get("algorithm")).toBe("grpo");
    expect([threads, configuration]).toEqual([null, null]);
  });
});
