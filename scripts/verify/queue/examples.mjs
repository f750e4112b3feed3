// Jobs and receipts for verifications of only the queue: as large as real ones, but not from a run.

/** Handlers that ignore everything. */
export const silent = {
  onReceipt: () => {},
  onReport: () => {},
  onForgotten: () => {},
  onNotice: () => {},
  onControl: () => {},
};

/** @param {string} episodeId @returns {import("../../../dist/queue/job-queue.js").Job} */
export function exampleJob(episodeId) {
  return {
    runId: "run-1",
    fence: 1,
    episodeId,
    groupId: "g",
    sampleIndex: 0,
    split: "train",
    taskIndex: 3,
    contentHash: "c".repeat(64),
    seed: 7,
    sampling: null,
    engineUrl: null,
    shards: "/shared/run/shards",
  };
}

/**
 * @param {import("../../../dist/queue/job-queue.js").Job} job
 * @param {string} worker
 * @returns {import("../../../dist/queue/job-queue.js").Receipt}
 */
export function exampleReceipt({ runId, fence, episodeId, groupId, sampleIndex }, worker) {
  const usage = { modelCalls: 0, inputTokens: 0, outputTokens: 0, cost: 0 };
  return {
    runId,
    fence,
    episodeId,
    worker,
    origin: "new",
    entry: {
      id: episodeId,
      groupId,
      sampleIndex,
      outcome: "completed",
      stopReason: "user_hung_up",
      failure: null,
      task: { environment: "tau-bench/retail", split: "train", id: "t", index: 3, contentHash: "c".repeat(64) },
      reward: 0.5,
      gradeNote: null,
      problems: {},
      historyPolicy: "append-only",
      turns: 7,
      decisions: 7,
      observedTokens: 40_000,
      sampledTokens: 900,
      trainedTokens: 900,
      samples: 1,
      longestSample: 6000,
      oldestWeights: "1",
      newestWeights: "1",
      durationMs: 9000,
      place: { shard: worker, offset: 0, length: 40_000, crc32: "0123abcd" },
    },
    details: {
      failure: null,
      ending: null,
      metrics: {},
      weightSpans: [],
      samples: 1,
      trainedTokens: 900,
      dropped: {},
    },
    counts: {
      turns: 7,
      sampledTokens: 900,
      recordedTurns: 0,
      recordedSampledTokens: 0,
      promptTokens: 40_000,
      retries: 0,
      spelledTokens: 0,
      unlikelyTokens: 0,
      cutResults: 0,
      closeFailures: 0,
      problems: {},
      deviations: {},
      agentUsage: usage,
      userUsage: usage,
      judgeUsage: usage,
    },
  };
}
