// The contract of engines, as checks without a test runner: each rejects with an `AssertionError`
// when the contract is broken. An engine with scripted answers (a script, a fake server) proves all
// of it; one with a real model proves the parts that hold for any answer (more of them if `live`
// states how to keep it busy), and the other checks are skipped with that reason. `trainable-agents
// doctor engine` runs them against any server.

import assert from "node:assert/strict";
import {
  type Engine,
  type EngineControl,
  type EngineFailureCode,
  type SampleRequest,
  type SampleResult,
  defaultSampling,
  type SamplingParams,
} from "../core/engine.ts";
import { AttributedError } from "../core/failure.ts";
import { TokenBuffer } from "../core/token-buffer.ts";
import { scoringChecks } from "./scoring-conformance.ts";

/** The behaviour of an engine under test in one call. */
export type EngineBehaviour =
  | { readonly type: "reply"; readonly tokens: readonly number[]; readonly weightVersion: string }
  /** After these tokens, the server aborts the request. */
  | { readonly type: "abort"; readonly tokens: readonly number[] }
  | { readonly type: "failure"; readonly code: EngineFailureCode }
  /** The engine does not answer until the request is cancelled or aborted. */
  | { readonly type: "hang" };

export type OpenEngine = {
  readonly engine: Engine;
  /** Operations of the same engine; `null` when it has none. */
  readonly control: EngineControl | null;
  /** Resolves when this many calls have begun on the other side. */
  readonly begun: (calls: number) => Promise<void>;
  /** Releases the server or script of the engine. Called once, after the engine was closed. */
  readonly close: () => Promise<void>;
};

/** Replacement for a script where a real model answers. */
export type LiveModel = {
  /**
   * Sampling parameters that keep a call running until it is ended, such as many tokens past the
   * end token.
   */
  readonly endless: Partial<SamplingParams>;
  /** Tokens of prompt and reply together; `null` if unknown. */
  readonly contextTokens: number | null;
  /**
   * Reason why the server must not be paused; `null` when it may be, which ends or holds the calls
   * of all its users.
   */
  readonly unpausable: string | null;
  readonly pauseModes: readonly ("abort" | "retract" | "in-place")[];
  /** Resolves after the time in which a short call would have been answered if it were not held. */
  readonly settle: () => Promise<void>;
};

export interface EngineHarness {
  /** Reason why the engine cannot be scripted; `null` when it can. */
  readonly unscripted: string | null;
  /**
   * Settings for the checks that need no script, for an engine that cannot be scripted. Without
   * them these checks are skipped.
   */
  readonly live?: LiveModel;
  /**
   * True if calls with `onTokens` receive the whole answer as it is sampled.
   * @default false: they receive a beginning of it
   */
  readonly streams?: boolean;
  /**
   * Reason why the engine does not score tokens; `null` when it does.
   * @default it does not
   */
  readonly unscored?: string | null;
  /** Reason why the engine has no operations; `null` when it has. */
  readonly uncontrolled: string | null;
  /** Failures that cannot be provoked, each with the reason. */
  readonly impossible: Readonly<Partial<Record<EngineFailureCode, string>>>;
  /** Ids that the engine's vocabulary contains and that end no reply. */
  readonly promptIds: readonly number[];
  /**
   * Opens an engine that gives these behaviours to its calls, in order; further calls get the
   * engine's own behaviour.
   */
  open(behaviours: readonly EngineBehaviour[]): Promise<OpenEngine>;
}

export type EngineCheck = {
  readonly name: string;
  /** Reason why the check does not apply; `null` when it does. */
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

/** Codes whose meaning determines if the failure is retryable. */
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
  const live = harness.unscripted === null ? null : (harness.live ?? null);
  const run = Math.random().toString(36).slice(2, 10);
  let count = 0;
  const request = (
    options: {
      readonly prompt?: TokenBuffer;
      readonly sampling?: Partial<SamplingParams>;
      readonly stopTokenIds?: readonly number[];
    } = {},
  ): SampleRequest => ({
    prompt: options.prompt ?? TokenBuffer.from(harness.promptIds),
    sampling: { ...defaultSampling, maxNewTokens: 4, ...options.sampling },
    stopTokenIds: options.stopTokenIds ?? (live === null ? [stopId] : []),
    // All ids have equal length, because servers may match an id that is a prefix of a longer one.
    requestId: `conformance-${run}-${String(++count).padStart(4, "0")}`,
    routingKey: null,
  });
  /** A request that a script never answers. */
  const endless = (): SampleRequest => request(live === null ? {} : { sampling: live.endless });
  /** Checks an answer: a script gives exactly these tokens, a model may give any. */
  const checkAnswer = (result: SampleResult, tokens: readonly number[]): void => {
    checkAligned(result, 4);
    if (live === null) assert.deepEqual([...result.sampledTokens], tokens);
  };
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
        // Closing twice is allowed.
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

  /** A check that also runs with a real model. */
  const either: typeof check = (name, behaviours, body) => {
    const made = check(name, behaviours, body);
    return live === null ? made : { ...made, skip: null };
  };
  const controlled: typeof check = (name, behaviours, body) => {
    const made = either(name, behaviours, body);
    return { ...made, skip: made.skip ?? harness.uncontrolled };
  };
  const pausing: typeof check = (name, behaviours, body) => {
    const made = controlled(name, behaviours, body);
    return { ...made, skip: made.skip ?? live?.unpausable ?? null };
  };
  /** A check of behaviour that a script cannot show. */
  const onlyLive = (made: EngineCheck): EngineCheck =>
    live === null ? { ...made, skip: harness.unscripted ?? "a script answers, and no model" } : made;
  const isHeld = async (call: Promise<SampleResult>): Promise<void> => {
    const settled = live === null ? turns() : live.settle();
    const result = await Promise.race([call, settled.then(() => null)]);
    // A real server may reach the token limit before the pause takes effect.
    if (live !== null && result?.finish.reason === "length") throw new EndedEarly();
    assert.equal(result === null ? "held" : "answered", "held");
  };

  const streaming: readonly (readonly [name: string, behaviours: readonly EngineBehaviour[]])[] = [
    ["any", []],
    ["a reply", [reply([5, 6, stopId])]],
    ["an abort", [{ type: "abort", tokens: [5, 6] }]],
    ["an abort without tokens", [{ type: "abort", tokens: [] }]],
  ];

  return [
    check("tokens, logprobs and weight spans have one length, within the bound", [], async (engine) => {
      checkAligned(await engine.sample(request({ sampling: { maxNewTokens: 3 } })), 3);
    }),
    check("calls may run at the same time, and share a prompt that grows once they settle", [], async (engine) => {
      const prompt = TokenBuffer.from(harness.promptIds);
      for (let turn = 0; turn < 3; turn++) {
        const results = await Promise.all(
          [request({ prompt }), request({ prompt }), request()].map((each) => engine.sample(each)),
        );
        for (const result of results) checkAligned(result, 4);
        prompt.append(harness.promptIds);
      }
    }),
    ...streaming.map(([name, behaviours]) =>
      check(`the tokens told as they come are those of the result: ${name}`, behaviours, async (engine) => {
        const told: number[] = [];
        const onTokens = (tokens: Uint32Array): void => void told.push(...tokens);
        const { sampledTokens } = await engine.sample(request(), { onTokens });
        const all = [...sampledTokens];
        assert.deepEqual(told, harness.streams === true ? all : all.slice(0, told.length));
        // A call without `onTokens` reports no tokens, not even to the callback of the previous
        // call.
        await engine.sample(request());
        assert.ok(told.length <= all.length, `${told.length} tokens were told of ${all.length}`);
      }),
    ),
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
    onlyLive(
      check("a token that the model samples ends the reply as a stop token, and is part of it", [], async (engine) => {
        const greedy = { ...live?.endless, temperature: 0, maxNewTokens: 1 };
        const [token = -1] = (await engine.sample(request({ sampling: greedy }))).sampledTokens;
        const stopping = { temperature: 0, maxNewTokens: 4 };
        const result = await engine.sample(request({ sampling: stopping, stopTokenIds: [token] }));
        assert.deepEqual([...result.sampledTokens], [token]);
        assert.equal(result.finish.reason, "stop");
        checkAligned(result, 4);
      }),
    ),
    onlyLive(
      check("every sampled token has a logprob", [], async (engine) => {
        const { logprobs, sampledTokens } = await engine.sample(request());
        assert.equal(logprobs?.length, sampledTokens.length);
      }),
    ),
    either("a reply that fills the bound ends with length", [reply([5, 6, 7, 8])], async (engine) => {
      const result = await engine.sample(request({ sampling: { ...live?.endless, maxNewTokens: 4 } }));
      checkAnswer(result, [5, 6, 7, 8]);
      assert.equal(result.sampledTokens.length, 4);
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
      const provoked = provoke(code, live);
      const made = (typeof provoked === "string" ? check : either)(
        `code ${code} reaches the caller`,
        [{ type: "failure", code }, reply([stopId])],
        async (engine) => {
          const failing = request(typeof provoked === "string" ? {} : provoked);
          const { failure } = await failureOf(engine.sample(failing), code);
          if (verdicts[code] !== undefined) assert.equal(failure.retryable, verdicts[code]);
          checkAnswer(await engine.sample(request()), [stopId]);
        },
      );
      const skip = made.skip !== null && typeof provoked === "string" ? provoked : made.skip;
      return { ...made, skip: harness.impossible[code] ?? skip };
    }),
    either(
      "a cancelled call rejects at once with code cancelled, and the next call is served",
      [{ type: "hang" }, reply([stopId])],
      async (engine, { begun }) => {
        const controller = new AbortController();
        const sampled = failureOf(engine.sample(endless(), { signal: controller.signal }), "cancelled");
        await begun(1);
        controller.abort();
        await sampled;
        checkAnswer(await engine.sample(request()), [stopId]);
      },
    ),
    controlled(
      "abort() ends the request of that id and no other",
      [{ type: "hang" }, { type: "hang" }],
      async (engine, opened) => {
        const [one, other] = [endless(), endless()];
        const controller = new AbortController();
        const unaffected = failureOf(engine.sample(other, { signal: controller.signal }), "cancelled");
        const ended = begin(engine.sample(one));
        await opened.begun(2);
        await opened.control?.abort("unknown");
        await opened.control?.abort(one.requestId);
        checkAborted(await ended);
        controller.abort();
        await unaffected;
      },
    ),
    controlled(
      "weightVersion() is the version of the last reply",
      [reply([5], "v1"), reply([6], "v2")],
      async (engine, { control }) => {
        await engine.sample(request());
        const { weightSpans } = await engine.sample(request());
        const named = live === null ? "v2" : (weightSpans.at(-1)?.reply ?? null);
        // A server may have a version without naming it in its replies.
        if (named !== null) assert.equal(await control?.weightVersion(), named);
      },
    ),
    pausing(
      "pause() in mode abort ends what runs, and continue() lets others begin",
      [{ type: "hang" }, reply([stopId])],
      async (engine, { begun, control }) => {
        const running = begin(engine.sample(endless()));
        await begun(1);
        await control?.pause("abort");
        try {
          checkAborted(await running);
          const held = begin(engine.sample(request()));
          await isHeld(held);
          await control?.continue();
          checkAnswer(await held, [stopId]);
        } finally {
          // A failed check must not leave a server paused that others use.
          await control?.continue();
        }
      },
    ),
    ...(["retract", "in-place"] as const).map((mode) => {
      const made = onlyLive(
        pausing(
          `pause() in mode ${mode} holds what runs, which then continues`,
          [],
          async (engine, { begun, control }) => {
            const call = endless();
            const running = begin(engine.sample(call));
            await begun(1);
            await control?.pause(mode);
            try {
              await isHeld(running);
              await isHeld(begin(engine.sample(request())));
            } finally {
              await control?.continue();
            }
            assert.ok((await engine.sample(request())).sampledTokens.length > 0);
            await control?.abort(call.requestId);
            const { finish, sampledTokens } = await running;
            assert.ok(sampledTokens.length > 0 && finish.reason !== "stop");
          },
        ),
      );
      const isKnown = live?.pauseModes.includes(mode) ?? true;
      return { ...made, skip: made.skip ?? (isKnown ? null : "the server has no such mode") };
    }),
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
    onlyLive(
      check("a span's version at dispatch is the one that the last reply named", [], async (engine) => {
        const [first, second] = [await engine.sample(request()), await engine.sample(request())];
        assert.equal(second.weightSpans[0]?.dispatch ?? null, first.weightSpans.at(-1)?.reply ?? null);
      }),
    ),
    ...scoringChecks(harness.promptIds, (prompt) => request({ prompt })).map(({ name, body }) => {
      const { unscored = "the engine does not score" } = harness;
      return { ...check(name, [], body), skip: unscored };
    }),
  ];
}

/** A request that a real server answers with this failure, or the reason why there is none. */
function provoke(
  code: EngineFailureCode,
  live: LiveModel | null,
): { readonly prompt?: TokenBuffer; readonly sampling?: Partial<SamplingParams> } | string {
  if (live === null) return "a script fails by itself";
  if (code === "bad-request") return { sampling: { temperature: -1 } };
  if (code !== "context-length") return "a real server is not made to fail";
  if (live.contextTokens === null) return "the length of the context is not known";
  return { prompt: TokenBuffer.from(new Uint32Array(live.contextTokens + 8).fill(1)) };
}

function checkAligned(result: SampleResult, most: number): void {
  const { sampledTokens, logprobs, weightSpans, finish, usage } = result;
  assert.ok(sampledTokens.length <= most, `${sampledTokens.length} tokens were sampled, maxNewTokens was ${most}`);
  assert.equal(
    weightSpans.reduce((sum, span) => sum + span.tokenCount, 0),
    sampledTokens.length,
  );
  assert.equal(usage.completionTokens, sampledTokens.length, "usage.completionTokens counts the sampled tokens");
  if (typeof finish.matched === "number") assert.equal(sampledTokens.at(-1), finish.matched);
  if (logprobs === null) return;
  assert.equal(logprobs.length, sampledTokens.length);
  assert.ok(logprobs.every((logprob) => Number.isFinite(logprob) && logprob <= 0));
}

/**
 * An endless call ended before the check could end it: nothing was shown, and another attempt may
 * show it.
 */
export class EndedEarly extends Error {
  constructor() {
    super("The call came to its end before the check could end it.");
    this.name = "EndedEarly";
  }
}

function checkAborted({ finish }: SampleResult): void {
  if (finish.reason === "length") throw new EndedEarly();
  assert.equal(finish.reason, "abort");
}

/** Begins a call that is awaited later, possibly after it has failed. */
function begin<T>(call: Promise<T>): Promise<T> {
  call.catch(() => undefined);
  return call;
}

function failureOf(call: Promise<SampleResult>, code: EngineFailureCode): Promise<AttributedError> {
  return begin(readFailure(call, code));
}

async function readFailure(call: Promise<SampleResult>, code: EngineFailureCode): Promise<AttributedError> {
  const message = `The call did not fail, expected a failure with code "${code}".`;
  const error: unknown = await call.then(
    ({ finish }) =>
      code === "cancelled" && finish.reason === "length" ? new EndedEarly() : new assert.AssertionError({ message }),
    (reason: unknown) => reason,
  );
  if (!(error instanceof AttributedError)) throw error;
  assert.equal(error.failure.boundary, "engine");
  assert.equal(error.failure.code, code);
  assert.equal(error.message, error.failure.message);
  return error;
}

/** Waits long enough for an answer within this process. */
async function turns(): Promise<void> {
  for (let turn = 0; turn < 50; turn++) {
    await new Promise((resolve) => {
      setImmediate(resolve);
    });
  }
}
