"""Answers of the service as Python sees them; /openapi.json of a running service is the authority."""

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
    """What is known of an episode. What is decided at its end is `None` or empty before."""

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
    """Rows in the layout that was asked for, one for each branch of each episode."""

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
    status: Literal["open", "paused", "closing"]
    weight_version: str | None
    running: int
    waiting: int
    limits: dict[str, float]


class SlimeMetadata(TypedDict):
    task_id: str
    group_id: str
    episode_id: str
    branch: int
    weight: float
    history_policy: str
    token_accounting: str
    stop_reason: str
    problems: int


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
