// Functions that the model calls. Pointers are byte offsets into the one memory that is imported,
// 16-byte aligned; counts are floats or rows. Nothing here checks its arguments:
// `src/learner/model` does.

export { attend } from "./attention";
export { scoreFloats } from "./attention-blocks";
export { attendBackward } from "./attention-gradient";
export { attendCached } from "./cached-attention";
export { gate, gateBackward } from "./gate";
export { logProbabilities, logProbabilitiesBackward, temper } from "./loss";
export { multiply, multiplyTransposed } from "./matrix";
export { normalize, normalizeBackward } from "./norm";
export { adamw, addTo, sumOfSquares } from "./optimizer";
export { packColumns, packRows } from "./panels";
export { rotate } from "./rotary";
export { gatherRows, scatterRows } from "./rows";
