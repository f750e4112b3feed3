// The doctor's checks of adapters, each on a fake server that has the fault of the recorded versions.

import { setImmediate as nextTurn } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { createSglangEngine } from "../engines/sglang/index.ts";
import { createVllmEngine } from "../engines/vllm/index.ts";
import { createHandlerClient } from "../http/handler-client.test-helper.ts";
import { createSglangFront, createVllmFront, examineAdapters, type Sampler } from "./index.ts";
import type { FrontAdapters } from "./front/adapters.ts";

const first: Readonly<Record<string, number>> = { "/a": 10, "/b": 20 };

type Faults = {
  /** Calls of adapters change logprobs of base calls beside them. */
  readonly corruptsBase?: boolean;
  /** Calls in flight follow an adapter that is exchanged. */
  readonly followsExchange?: boolean;
};

function slowSampler({ corruptsBase = false, followsExchange = false }: Faults): Sampler {
  let adapters = 0;
  return {
    sample: async ({ adapter = null, params }, { onTokens }) => {
      const began = adapter?.path ?? null;
      if (adapter !== null) adapters++;
      const [ids, logprobs]: [number[], number[]] = [[], []];
      for (let place = 0; place < params.maxNewTokens; place++) {
        const path = followsExchange ? (adapter?.path ?? null) : began;
        const id = path === null ? 0 : first[path]!;
        const logprob = path === null && corruptsBase && adapters > 0 ? -0.7 : -0.5;
        ids.push(id);
        logprobs.push(logprob);
        if (onTokens([id], [logprob]) === "stop") break;
        await nextTurn();
      }
      if (adapter !== null) adapters--;
      return { ids, logprobs, finish: "end", cachedTokens: 0, weightVersion: null };
    },
  };
}

async function examine(
  product: "sglang" | "vllm",
  {
    faults = {},
    adapters = {},
    adapter = null,
    folders = ["/a", "/b"],
  }: {
    readonly faults?: Faults;
    readonly adapters?: FrontAdapters;
    readonly adapter?: string | null;
    readonly folders?: readonly string[];
  } = {},
): Promise<Record<string, string>> {
  const options = { sampler: slowSampler(faults), adapters: { loaded: { live: "/a" }, ...adapters } };
  const front = product === "vllm" ? createVllmFront(options) : createSglangFront(options);
  const http = createHandlerClient((asked) => front.handle(asked), { boundary: "engine" });
  const shared = { url: "http://server", http };
  const engine =
    product === "vllm"
      ? createVllmEngine({ ...shared, endpoint: "generate", logprobsMode: "processed" })
      : createSglangEngine(shared);
  const loadInPlace = async ({ name, path }: { readonly name: string; readonly path: string }): Promise<void> => {
    const body = JSON.stringify({ lora_name: name, lora_path: path, load_inplace: true });
    const headers = { "content-type": "application/json" };
    await front.handle(new Request("http://server/v1/load_lora_adapter", { method: "POST", body, headers }));
  };
  const seen: string[] = [];
  const outcomes = await examineAdapters({
    engine,
    adapter,
    folders,
    loadInPlace: product === "vllm" ? loadInPlace : null,
    onOutcome: ({ name }) => seen.push(name),
  });
  expect(seen).toEqual(outcomes.map(({ name }) => name));
  const models = await (await front.handle(new Request("http://server/v1/models"))).text();
  expect(models).not.toContain("doctor-");
  return Object.fromEntries(
    outcomes.map(({ name, result, reason }) => [name, reason === null ? result : `${result}: ${reason}`]),
  );
}

const all = {
  "an adapter's name selects it": "ok",
  "an unknown adapter is refused": "ok",
  "base calls are unchanged by adapters in the same batch": "ok",
  "an unloaded adapter is refused": "ok",
  "a call keeps the weights with which it began": "ok",
};
const failed = (text: string): string => expect.stringMatching(new RegExp(`^failed: .*${text}`)) as string;
const notApplicable = (text: string): string =>
  expect.stringMatching(new RegExp(`^not applicable: .*${text}`)) as string;

describe("examineAdapters()", () => {
  test("finds nothing in a server without faults", async () => {
    expect(await examine("vllm")).toEqual(all);
    expect(await examine("vllm", { adapter: "live", folders: [] })).toEqual({
      ...all,
      "an unloaded adapter is refused": notApplicable("--adapter-folders"),
      "a call keeps the weights with which it began": notApplicable("two folders"),
    });
  });

  test("finds base requests that adapters of the same batch change", async () => {
    expect(await examine("vllm", { faults: { corruptsBase: true } })).toEqual({
      ...all,
      "base calls are unchanged by adapters in the same batch": failed("differ by 0.20.*--max-loras"),
    });
  });

  test("finds an update in place without a span", async () => {
    expect(await examine("vllm", { faults: { followsExchange: true } })).toEqual({
      ...all,
      "a call keeps the weights with which it began": failed("no span shows it; load new weights under a new name"),
    });
  });

  test("finds SGLang's unloaded names that answer", async () => {
    expect(await examine("sglang")).toEqual({
      ...all,
      "an unloaded adapter is refused": failed("never use a name again"),
      "a call keeps the weights with which it began": notApplicable("in place"),
    });
  });

  test.each(["sglang", "vllm"] as const)("finds a %s that ignores names", async (product) => {
    const outcomes = await examine(product, { adapters: { ignoresNames: true } });
    expect(outcomes).toMatchObject({
      "an adapter's name selects it": failed("same tokens and logprobs as the base"),
      "an unknown adapter is refused": failed("never loaded"),
      "an unloaded adapter is refused": failed("unloaded"),
    });
  });
});
