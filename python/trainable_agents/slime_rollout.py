"""A rollout of slime by whole groups: each is one request, all run concurrently, and the first to pass are trained.

The order of events is that of slime's own rollout: over-sampling, dynamic filter, surplus groups, filters of the whole batch.
Differences, with their reasons: a group with a failed or aborted episode is replaced, because its rewards say
nothing about the others; filters see one sample for each episode, because they compare rewards of episodes.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from dataclasses import dataclass
from typing import Any

from .errors import ConfigurationError, NotFound, TrainableAgentsError
from .rows import fill_samples, rows_of
from .settings import Settings, read_settings
from .slime_request import request_options, task_index
from .trainer_link import HELD, TrainerLink, link_for
from .wire import Group

_logger = logging.getLogger(__name__)

Samples = list[Any]


@dataclass
class Played:
    """A group that has ended: for each episode the samples of its branches."""

    group_id: str
    episodes: list[Samples]
    problem: str | None
    """Reason why it cannot be trained."""

    @property
    def first(self) -> Samples:
        return [branches[0] for branches in self.episodes]


async def roll_out(args: Any, rollout_id: int, data_source: Any) -> tuple[Any, list[Samples]]:
    """The output of the rollout, and the groups that continue in the service."""
    from slime.rollout.base_types import RolloutFnTrainOutput  # type: ignore[import-not-found]
    from slime.rollout.filter_hub.base_types import (  # type: ignore[import-not-found]
        MetricGatherer,
        call_dynamic_filter,
        should_drop_dynamic_filter_output,
    )
    from slime.utils.misc import load_function  # type: ignore[import-not-found]

    settings = _check(args)
    link = link_for(settings)
    path = getattr(args, "dynamic_sampling_filter_path", None)
    dynamic_filter = None if path is None else load_function(path)
    target: int = args.rollout_batch_size
    kept: list[Played] = []
    seen: list[Played] = []
    surplus: list[Samples] = []
    pending: dict[asyncio.Task[Played], Samples] = {}
    gatherer = MetricGatherer()
    remaining = lost = 0
    await link.go_on(is_partial=getattr(args, "partial_rollout", False))
    try:
        while len(kept) < target:
            while remaining < target:
                groups = data_source.get_samples(getattr(args, "over_sampling_batch_size", None) or target)
                if not groups:
                    raise ConfigurationError("Cannot roll out: the data source has no samples; check --prompt-data.")
                for group in groups:
                    pending[asyncio.create_task(_play(args, link, settings, group))] = group
                remaining += len(groups)
            done, _ = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                group = pending.pop(task)
                played = task.result()
                if played.problem is not None:
                    gatherer.on_dynamic_filter_drop(reason="episode_failed")
                    remaining -= 1
                    lost += 1
                    _judge_losses(lost, played.problem, target)
                    continue
                lost = 0
                seen.append(played)
                judged = call_dynamic_filter(dynamic_filter, args, played.first)
                if should_drop_dynamic_filter_output(judged, remaining_batch_size=remaining, target_data_size=target):
                    gatherer.on_dynamic_filter_drop(reason=judged.reason)
                    remaining -= 1
                elif len(kept) < target:
                    kept.append(played)
                else:
                    surplus.append(_held(group, played.group_id))
    except BaseException:
        await _give_up(link, pending)
        raise
    left = await _end(args, rollout_id, link, settings, pending)
    if getattr(args, "partial_rollout", False):
        left = surplus + left
    data = _in_order(kept)
    if getattr(args, "rollout_sample_filter_path", None) is not None:
        load_function(args.rollout_sample_filter_path)(args, data)
    if getattr(args, "rollout_all_samples_process_path", None) is not None:
        load_function(args.rollout_all_samples_process_path)(args, _in_order(seen), data_source)
    metrics = {**gatherer.collect(), **await _weights(link, kept)}
    return RolloutFnTrainOutput(samples=data, metrics=metrics), left


def _check(args: Any) -> Settings:
    if getattr(args, "group_rm", False):
        raise ConfigurationError("Cannot use --group-rm: the environment gives the rewards; remove it.")
    if getattr(args, "sglang_enable_deterministic_inference", False):
        raise ConfigurationError(
            "Cannot give each sample of a group its own sampling seed: leave out --sglang-enable-deterministic-inference, or "
            "use --custom-generate-function-path trainable_agents.slime.generate."
        )
    return read_settings(args)


async def _play(args: Any, link: TrainerLink, settings: Settings, group: Samples) -> Played:
    from slime.rollout.sglang_rollout import GenerateState  # type: ignore[import-not-found]

    first = group[0]
    options = request_options(
        args,
        first.metadata,
        GenerateState(args).sampling_params,
        number=first.group_index,
        evaluation=False,
        settings=settings,
    )
    begun = await _begin(link, group, options)
    try:
        ended = await link.client.ended_group(begun["id"])
        rows = (await link.client.group_samples(begun["id"]))["samples"]
    except asyncio.CancelledError:
        _held(group, begun["id"])
        raise
    keys = [key for key in (getattr(args, "reward_key", None),) if key]
    return Played(
        group_id=begun["id"],
        episodes=[
            fill_samples(sample, episode, rows_of(episode, rows), reward_keys=keys)
            for sample, episode in zip(group, ended["episodes"], strict=True)
        ],
        problem=_problem(ended),
    )


async def _begin(link: TrainerLink, group: Samples, options: dict[str, Any]) -> Group:
    first = group[0]
    held = (first.metadata or {}).pop(HELD, None)
    if held is not None:
        try:
            return await link.client.group(held)
        except NotFound:
            _logger.warning("The service no longer knows group %s; it is played anew.", held)
    starting = asyncio.ensure_future(link.client.start_group(task_index(first), len(group), key=uuid.uuid4().hex, **options))
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        # The id must be known even if the start is uncertain, or the group could not be ended.
        try:
            begun = await asyncio.wait_for(starting, 10)
            _held(group, begun["id"])
        except (TrainableAgentsError, asyncio.TimeoutError) as error:
            starting.cancel()
            _logger.warning("Could not learn whether a group was started: %s", error)
        raise


def _problem(group: Group) -> str | None:
    for episode in group["episodes"]:
        if episode["outcome"] in ("failed", "aborted"):
            failure = episode["failure"]
            return f"episode {episode['id']} {episode['outcome']}: {failure['message'] if failure else episode['stop_reason']}"
    return None


def _judge_losses(lost: int, problem: str, target: int) -> None:
    _logger.warning("A group is replaced: %s", problem)
    if lost >= max(8, target):
        raise ConfigurationError(
            f"Cannot roll out: {lost} groups in a row had an episode that did not end well, at last {problem}; mend that, then "
            "start the training again."
        )


async def _end(
    args: Any,
    rollout_id: int,
    link: TrainerLink,
    settings: Settings,
    pending: dict[asyncio.Task[Played], Samples],
) -> list[Samples]:
    """Cancels surplus groups, or holds them for the next rollout, and leaves the engines idle, as slime's own rollout does."""
    from slime.rollout.sglang_rollout import GenerateState, abort

    is_partial = getattr(args, "partial_rollout", False)
    if is_partial:
        await link.hold()
    await _stop_waiting(pending)
    if not is_partial:
        await _cancel(link, pending)
    if settings.engine == "router":
        await abort(args, rollout_id)
    GenerateState(args).reset()
    return list(pending.values()) if is_partial else []


async def _give_up(link: TrainerLink, pending: dict[asyncio.Task[Played], Samples]) -> None:
    """Called when the training ends with an error: cancels running groups in the service if that is possible quickly."""
    await _stop_waiting(pending)
    try:
        await asyncio.wait_for(_cancel(link, pending), 10)
    except (TrainableAgentsError, asyncio.TimeoutError) as error:
        _logger.warning("Could not end what plays in the rollout service: %s", error)


async def _stop_waiting(pending: dict[asyncio.Task[Played], Samples]) -> None:
    for task in pending:
        task.cancel()
    for ended, group in zip(await asyncio.gather(*pending, return_exceptions=True), pending.values(), strict=True):
        if isinstance(ended, Played):
            _held(group, ended.group_id)


async def _cancel(link: TrainerLink, pending: dict[asyncio.Task[Played], Samples]) -> None:
    ids = [(group[0].metadata or {}).pop(HELD, None) for group in pending.values()]
    await asyncio.gather(*(link.client.cancel_group(group_id) for group_id in ids if group_id is not None))


def _held(group: Samples, group_id: str) -> Samples:
    """The group, with the metadata that identifies it in the service."""
    group[0].metadata = {**(group[0].metadata or {}), HELD: group_id}
    return group


def _in_order(played: list[Played]) -> list[Any]:
    """Groups by their first index. If an episode has several branches, all are nested in lists: slime requires a uniform
    depth."""
    has_branches = any(len(branches) > 1 for one in played for branches in one.episodes)
    ordered = sorted(played, key=lambda one: one.first[0].index)
    return [one.episodes if has_branches else one.first for one in ordered]


async def _weights(link: TrainerLink, kept: list[Played]) -> dict[str, float]:
    """Weight versions that sampled the batch. The newest is reported to the service, which shows it in /v1/info."""
    named = [version for one in kept for branches in one.episodes for sample in branches for version in sample.weight_versions]
    numbers = [int(version) for version in named if version.isdecimal()]
    if not numbers:
        return {}
    await link.client.report_weights(max(numbers))
    return {"rollout/weight_version/min": min(numbers), "rollout/weight_version/max": max(numbers)}
