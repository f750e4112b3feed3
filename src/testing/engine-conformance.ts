// What every engine must keep, as checks without a test runner: each rejects with an `AssertionError` when the contract is
// broken. An engine that can be told what to answer (a script, a fake server) proves all of it; one with a real model proves
// what holds whatever it says, and the other checks are skipped with that reason.

import assert from "node:assert/strict";
import type { Engine, EngineControl, EngineFailureCode, SampleRequest, SampleResult } from "../core/engine.ts";
import { AttributedError } from "../core/failure.ts";
import { defaultSampling } from "../core/sampling.ts";
import { TokenBuffer } from "../core/token-buffer.ts";

/** What an engine under test is told to do with one call. */
export type EngineBehaviour =
  | { readonly type: "reply"; readonly tokens: readonly number[]; readonly weightVersion: string }
  /** The server aborts the request after these tokens. */
  | { readonly type: "abort"; readonly tokens: readonly number[] }
  | { readonly type: "failure"; readonly code: EngineFailureCode }
  /** No answer until the request is cancelled or aborted. */
  | { readonly type: "hang" };

export type OpenEngine = {
  readonly engine: Engine;
  /** The same engine's operations; `null` when it has none. */
  readonly control: EngineControl | null;
  /** Resolves when the other side has begun this many calls. */
  readonly begun: (calls: number) => Promise<void>;
  /** Frees what stands behind the engine. Called once, after the engine was closed. */
  readonly close: () => Promise<void>;
};

export interface EngineHarness {
  /** Why the engine cannot be told what to answer; `null` when it can. */
  readonly unscripted: string | null;
  /** Why the engine has no operations; `null` when it has. */
  readonly uncontrolled: string | null;
  /** Failures that cannot be brought about, each with the reason. */
  readonly impossible: Readonly<Partial<Record<EngineFailureCode, string>>>;
  /** Ids that the engine's vocabulary has, and that end no reply. */
  readonly promptIds: readonly number[];
  /** An engine that treats its calls as told, in order; calls beyond are the engine's own affair. */
  open(behaviours: readonly EngineBehaviour[]): Promise<OpenEngine>;
}

export type EngineCheck = {
  readonly name: string;
  /** Why it does not apply; `null` when it does. */
  readonly skip: string | null;
  readonly run: () => Promise<void>;
};

const stopId = 9;
const failureCodes: readonly EngineFailureCode[] = [
  "context-length",
  "unreachable",
  "connection-lost",
  "timeout",
  "overloaded",
  "server-error",
  "bad-request",
  "unauthorized",
  "bad-reply",
];

/** Codes whose meaning leaves no choice about another try. */
const verdicts: Readonly<Partial<Record<EngineFailureCode, boolean>>> = {
  "context-length": false,
  unauthorized: false,
  "bad-request": false,
  cancelled: false,
  overloaded: true,
  timeout: true,
  "connection-lost": true,
};

/** The checks for one engine. */
export function engineConformance(harness: EngineHarness): readonly EngineCheck[] {
  let count = 0;
  const request = (options: { readonly prompt?: TokenBuffer; readonly maxNewTokens?: number } = {}): SampleRequest => ({
    prompt: options.prompt ?? TokenBuffer.from(harness.promptIds),
    sampling: { ...defaultSampling, maxNewTokens: options.maxNewTokens ?? 4 },
    stopTokenIds: [stopId],
    requestId: `conformance-${++count}`,
    routingKey: null,
  });
  const check = (
    name: string,
    behaviours: readonly EngineBehaviour[],
    body: (engine: Engine, opened: OpenEngine) => Promise<void>,
  ): EngineCheck => ({
    name,
    skip: behaviours.length > 0 ? harness.unscripted : null,
    run: async () => {
      const opened = await harness.open(behaviours);
      try {
        await body(opened.engine, opened);
      } finally {
        await opened.engine.close();
        // Closing twice is no mistake.
        await opened.engine.close();
        await opened.close();
      }
    },
  });
  const reply = (tokens: readonly number[], weightVersion = "v1"): EngineBehaviour => ({
    type: "reply",
    tokens,
    weightVersion,
  });

  const controlled: typeof check = (name, behaviours, body) => {
    const made = check(name, behaviours, body);
    return { ...made, skip: made.skip ?? harness.uncontrolled };
  };

  return [
    check("tokens, logprobs and weight spans have one length, within the bound", [], async (engine) => {
      checkAligned(await engine.sample(request({ maxNewTokens: 3 })), 3);
    }),
    check("calls may run at the same time, and share a prompt that grows once they settle", [], async (engine) => {
      const prompt = TokenBuffer.from(harness.promptIds);
      for (let turn = 0; turn < 3; turn++) {
        const results = await Promise.all(
          [request({ prompt }), request({ prompt }), request()].map((asked) => engine.sample(asked)),
        );
        for (const result of results) checkAligned(result, 4);
        prompt.append(harness.promptIds);
      }
    }),
    check("a signal that is aborted already rejects with code cancelled", [], async (engine) => {
      await failureOf(engine.sample(request(), { signal: AbortSignal.abort() }), "cancelled");
    }),
    check(
      "the tokens are those that were sampled, the stop token included",
      [reply([5, 6, stopId])],
      async (engine) => {
        const result = await engine.sample(request());
        assert.deepEqual([...result.sampledTokens], [5, 6, stopId]);
        assert.equal(result.finish.reason, "stop");
        assert.ok(result.finish.matched === stopId || result.finish.matched === null);
        checkAligned(result, 4);
      },
    ),
    check("a reply that fills the bound ends with length", [reply([5, 6, 7, 8])], async (engine) => {
      const result = await engine.sample(request({ maxNewTokens: 4 }));
      assert.deepEqual([...result.sampledTokens], [5, 6, 7, 8]);
      assert.equal(result.finish.reason, "length");
    }),
    ...[[5, 6], []].map((tokens) =>
      check(
        `an abort by the server is a result with its ${tokens.length} tokens`,
        [{ type: "abort", tokens }],
        async (engine) => {
          const result = await engine.sample(request());
          assert.deepEqual([...result.sampledTokens], tokens);
          assert.equal(result.finish.reason, "abort");
          checkAligned(result, 4);
        },
      ),
    ),
    ...failureCodes.map((code) => {
      const made = check(
        `code ${code} reaches the caller`,
        [{ type: "failure", code }, reply([stopId])],
        async (engine) => {
          const { failure } = await failureOf(engine.sample(request()), code);
          if (verdicts[code] !== undefined) assert.equal(failure.retryable, verdicts[code]);
          assert.deepEqual([...(await engine.sample(request())).sampledTokens], [stopId]);
        },
      );
      return { ...made, skip: made.skip ?? harness.impossible[code] ?? null };
    }),
    check(
      "a cancelled call rejects at once with code cancelled, and the next call is served",
      [{ type: "hang" }, reply([stopId])],
      async (engine, { begun }) => {
        const controller = new AbortController();
        const sampled = failureOf(engine.sample(request(), { signal: controller.signal }), "cancelled");
        await begun(1);
        controller.abort();
        await sampled;
        assert.deepEqual([...(await engine.sample(request())).sampledTokens], [stopId]);
      },
    ),
    controlled(
      "abort() ends the request of that id and no other",
      [{ type: "hang" }, { type: "hang" }],
      async (engine, opened) => {
        const [one, other] = [request(), request()];
        const controller = new AbortController();
        const kept = failureOf(engine.sample(other, { signal: controller.signal }), "cancelled");
        const ended = engine.sample(one);
        await opened.begun(2);
        await opened.control?.abort("unknown");
        await opened.control?.abort(one.requestId);
        assert.equal((await ended).finish.reason, "abort");
        controller.abort();
        await kept;
      },
    ),
    controlled(
      "weightVersion() is the version of the last reply",
      [reply([5], "v1"), reply([6], "v2")],
      async (engine, { control }) => {
        await engine.sample(request());
        await engine.sample(request());
        assert.equal(await control?.weightVersion(), "v2");
      },
    ),
    controlled(
      "pause() in mode abort ends what runs, and continue() lets others begin",
      [{ type: "hang" }, reply([stopId])],
      async (engine, opened) => {
        const running = engine.sample(request());
        await opened.begun(1);
        await opened.control?.pause("abort");
        assert.equal((await running).finish.reason, "abort");
        const held = engine.sample(request());
        const first = await Promise.race([held.then(() => "answered"), turns().then(() => "held")]);
        assert.equal(first, "held");
        await opened.control?.continue();
        assert.deepEqual([...(await held).sampledTokens], [stopId]);
      },
    ),
    check(
      "a span has the version known at dispatch, or exactly the one that sampled, and the one at reply",
      [reply([5], "v1"), reply([6], "v2")],
      async (engine) => {
        await engine.sample(request());
        const { weightSpans } = await engine.sample(request());
        const [span] = weightSpans;
        assert.deepEqual([weightSpans.length, span?.tokenCount, span?.reply], [1, 1, "v2"]);
        assert.ok(span?.dispatch === "v1" || span?.dispatch === "v2");
      },
    ),
  ];
}

function checkAligned(result: SampleResult, most: number): void {
  const { sampledTokens, logprobs, weightSpans, finish, usage } = result;
  assert.ok(sampledTokens.length <= most);
  assert.equal(
    weightSpans.reduce((sum, span) => sum + span.tokenCount, 0),
    sampledTokens.length,
  );
  assert.equal(usage.completionTokens, sampledTokens.length);
  if (typeof finish.matched === "number") assert.equal(sampledTokens.at(-1), finish.matched);
  if (logprobs === null) return;
  assert.equal(logprobs.length, sampledTokens.length);
  assert.ok(logprobs.every((logprob) => Number.isFinite(logprob) && logprob <= 0));
}

async function failureOf(call: Promise<SampleResult>, code: EngineFailureCode): Promise<AttributedError> {
  const error: unknown = await call.then(
    () => new assert.AssertionError({ message: `The call did not fail, wanted a failure with code "${code}".` }),
    (reason: unknown) => reason,
  );
  if (!(error instanceof AttributedError)) throw error;
  assert.equal(error.failure.boundary, "engine");
  assert.equal(error.failure.code, code);
  assert.equal(error.message, error.failure.message);
  return error;
}

/** Long enough for an answer within this process. */
async function turns(): Promise<void> {
  for (let turn = 0; turn < 50; turn++) {
    await new Promise((resolve) => {
      setImmediate(resolve);
    });
  }
}
