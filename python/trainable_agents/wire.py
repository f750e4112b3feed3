"""Types of the service's answers; /openapi.json of a running service is the authority."""

from __future__ import annotations

from typing import Any, Literal, TypedDict

Outcome = Literal["completed", "truncated", "aborted", "failed"]
Status = Literal["waiting", "running", "ended"]


class Failure(TypedDict):
    boundary: str
    code: str
    message: str
    retryable: bool


class Episode(TypedDict):
    """State of an episode. Fields that are decided at its end are `None` or empty before."""

    id: str
    group_id: str
    status: Status
    task_id: str
    task_index: int
    split: str
    sample_index: int
    seed: int
    outcome: Outcome | None
    stop_reason: str | None
    reward: float | None
    failure: Failure | None
    metrics: dict[str, float]
    turns: int | None
    sampled_tokens: int | None
    weight_versions: list[str | None]
    problems: dict[str, int]


class Group(TypedDict):
    id: str
    status: Status
    task_index: int
    samples: int
    episodes: list[Episode]


class DroppedTokens(TypedDict):
    episode_id: str
    turn: int
    count: int
    reason: str


class Samples(TypedDict):
    """Rows in the requested layout, one for each branch of each episode."""

    format: str
    episodes: list[Episode]
    samples: list[Any]
    dropped_tokens: list[DroppedTokens]


class Info(TypedDict):
    name: str
    environment: str
    splits: dict[str, int]
    default_split: str
    formats: list[str]
    status: Literal["open", "paused", "degraded", "draining"]
    weight_version: str | None
    running: int
    waiting: int
    limits: dict[str, float]


ProducerState = Literal["running", "paused", "lapsed", "draining", "ended", "cancelled", "failed"]


class ProducerOptions(TypedDict, total=False):
    """Options of a producer in addition to `samples` and `batch_groups`. `None` or an omitted option means the service's
    default."""

    split: str | None
    tasks: list[int] | None
    """Task indexes; default: all of the split, in order."""
    passes: int | None
    """Number of times that each task is run; default: unlimited."""
    seed: int | None
    sampling_params: dict[str, Any] | None
    engine: dict[str, Any] | None
    max_staleness: int | None
    """Maximum number of versions by which the oldest token of a group may lag behind the trainer's weights; default: 1."""
    stale: Literal["drop", "requeue"] | None
    buffer_groups: int | None
    filters: list[str] | None
    """Filters such as "zero-signal" and "reward-range:0.1-0.9"."""
    min_group: int | None
    replacements: int | None
    group_timeout_seconds: float | None
    group_cutoff: Literal["keep", "drop"] | None
    curriculum: bool | None
    weight_version: str | int | None
    """Version of the engine's weights at the beginning."""
    training: str | None
    """Training that it belongs to: only reports that name the same training reach it."""
    lease_seconds: float | None
    """Seconds without a request from its trainer after which it begins no further group until the next request; default:
    3600."""


class Producer(TypedDict):
    """A continuous source of groups, for a trainer that trains while they run. `batches`: number of batches handed over so far,
    which is also the number of the next one."""

    id: str
    state: ProducerState
    training: str | None
    lease_seconds: float
    lease_left_seconds: float | None
    version: int
    split: str
    samples: int
    batch_groups: int
    max_staleness: int
    weight_version: str | None
    running_episodes: int
    open_groups: int
    buffered: int
    handed_over: int
    batches: int
    dropped: dict[str, int]


class BatchGroup(Group):
    staleness: int
    """Number of versions between its oldest token and the trainer's weights when it was handed over."""


class Batch(TypedDict):
    producer_id: str
    number: int
    status: Literal["ready", "waiting", "ended"]
    groups: list[BatchGroup]
    producer: Producer


class TakenGroup(BatchGroup):
    rows: list[Any]
    """Rows in the requested layout."""
    dropped_tokens: list[DroppedTokens]


class TakenBatch(TypedDict):
    """A batch with its training rows. With status "ended" it is the last one: fewer groups than usual, or none."""

    producer_id: str
    number: int
    status: Literal["ready", "waiting", "ended"]
    groups: list[TakenGroup]
    producer: Producer


class TurnDigest(TypedDict):
    """Proof of one turn of a row; `trainable_agents.ledger` checks it."""

    turn: int
    start: int
    end: int
    digest: str
    request_ids: list[str]
    weights: list[list[Any]]


class SlimeMetadata(TypedDict):
    source_name: str
    task_id: str
    group_id: str
    episode_id: str
    branch: int
    weight: float
    history_policy: str
    token_accounting: str
    deviations: list[str]
    stop_reason: str
    problems: int
    turn_digests: list[TurnDigest]


class SlimeRow(TypedDict):
    """A row of format "slime". `loss_mask` and `rollout_log_probs` have `response_length` entries."""

    index: int
    group_index: int
    rollout_id: int
    prompt: str
    tokens: list[int]
    response: str
    response_length: int
    reward: float | None
    loss_mask: list[int]
    rollout_log_probs: list[float] | None
    weight_versions: list[str]
    status: str
    metadata: SlimeMetadata
