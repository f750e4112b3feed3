"""Fills slime's samples from rows of the service. Imports nothing from slime: the class is that of the given sample."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from .wire import Episode, SlimeRow


def fill_samples(sample: Any, episode: Episode, rows: Sequence[SlimeRow], *, reward_keys: Sequence[str] = ()) -> list[Any]:
    """The samples of an episode that has ended, one for each branch; the first is `sample` itself.

    An aborted episode trains nothing and has no reward: `sample` keeps no tokens, so that it can be run again. A failed one
    keeps its place, because slime counts samples, but none of its tokens enter a loss.
    """
    status = getattr(type(sample).Status, (episode["outcome"] or "aborted").upper())
    facts = _facts(episode)
    if episode["outcome"] == "aborted" or episode["outcome"] is None:
        sample.status = status
        sample.reward = None
        sample.metadata = {**(sample.metadata or {}), **facts}
        return [sample]
    is_failed = episode["outcome"] == "failed"
    known = sample.metadata or {}
    filled = []
    for place, row in enumerate(rows or [_nothing(sample)]):
        one = sample if place == 0 else copy.copy(sample)
        one.prompt = row["prompt"]
        one.tokens = list(row["tokens"])
        one.response = row["response"]
        one.response_length = row["response_length"]
        one.loss_mask = [0] * row["response_length"] if is_failed else list(row["loss_mask"])
        one.rollout_log_probs = None if row["rollout_log_probs"] is None else list(row["rollout_log_probs"])
        one.weight_versions = list(row["weight_versions"])
        one.status = status
        one.reward = _reward(0.0 if is_failed else row["reward"], reward_keys, {} if is_failed else episode["metrics"])
        one.remove_sample = is_failed or not rows
        # slime averages the loss over samples with equal ids, and uses the index if there is no id.
        one.rollout_id = sample.index
        one.metadata = {**known, **row["metadata"], **facts}
        # slime splits its metrics by it; the trainer's own name for its data takes precedence.
        source = known.get("source_name") or row["metadata"].get("source_name") or known.get("environment")
        if source:
            one.metadata["source_name"] = source
        filled.append(one)
    return filled


def rows_of(episode: Episode, rows: Sequence[SlimeRow]) -> list[SlimeRow]:
    return [row for row in rows if row["metadata"]["episode_id"] == episode["id"]]


def _facts(episode: Episode) -> dict[str, Any]:
    return {
        "task_id": episode["task_id"],
        "task_index": episode["task_index"],
        "split": episode["split"],
        "episode_id": episode["id"],
        "outcome": episode["outcome"],
        "stop_reason": episode["stop_reason"],
        "failure": episode["failure"],
        "turns": episode["turns"],
        "metrics": episode["metrics"],
    }


def _reward(
    reward: float | None, keys: Sequence[str], metrics: Mapping[str, float]
) -> float | dict[str, float] | None:
    """The reward, or with slime's --reward-key all values of the grade by key: a key that names a metric selects the metric,
    any other key the reward."""
    if reward is None:
        return None
    # JSON has one type of number; a trainer's tensor takes its type from the first one.
    number = float(reward)
    if not keys:
        return number
    return {"reward": number, **dict.fromkeys(keys, number), **{name: float(one) for name, one in metrics.items()}}


def _nothing(sample: Any) -> Any:
    """Row of an episode that ended before its first action: slime requires a response, so it has one masked token."""
    return {
        "prompt": str(sample.prompt),
        "tokens": [0, 0],
        "response": "",
        "response_length": 1,
        "reward": 0.0,
        "loss_mask": [0],
        "rollout_log_probs": [0.0],
        "weight_versions": [],
        "metadata": {},
    }
