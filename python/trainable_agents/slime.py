"""Functions that slime calls: `generate` for --custom-generate-function-path, `generate_rollout` for --rollout-function-path,
and `post_process_rewards` for --custom-reward-post-process-path.

slime is imported only inside functions, and only where necessary: the sample's class comes with the sample. An episode is
started with a key and then identified by its id. Episodes that slime aborts are cancelled in the service; with
--partial-rollout they are held there instead: the id stays in the sample's metadata, and the next rollout continues the
episode.
"""

from __future__ import annotations

import asyncio
import logging
import statistics
import sys
import uuid
from collections.abc import Awaitable
from typing import Any, TypeVar

from .client import Client
from .errors import ConfigurationError, NotFound, TrainableAgentsError
from .rows import fill_samples
from .settings import Settings, read_settings
from .slime_request import check_arguments, compares_groups, request_options, task_index
from .slime_rollout import roll_out
from .trainer_link import HELD, TrainerLink, link_for
from .wire import Episode

__all__ = ["generate", "generate_rollout", "post_process_rewards"]

_T = TypeVar("_T")
_logger = logging.getLogger(__name__)
_LOOK_SECONDS = 0.5


async def generate(args: Any, sample: Any, sampling_params: dict[str, Any], evaluation: bool = False) -> Any:
    """Runs the task whose index is `sample.prompt` and returns the filled sample; a list with TRAINABLE_AGENTS_BRANCHES=list.

    Status: completed, truncated (a limit was reached; the episode is still graded), aborted (no reward), failed (reward 0, and
    `remove_sample`, so that no token is trained). Raises `TrainableAgentsError` for faults that only the user can correct.
    """
    settings = read_settings(args)
    check_arguments(args, evaluation=evaluation)
    index = task_index(sample)
    options = request_options(
        args, sample.metadata, sampling_params, number=sample.index, evaluation=evaluation, settings=settings
    )
    link = link_for(settings)
    await link.go_on(is_partial=getattr(args, "partial_rollout", False))
    episode = await _play(args, link, sample, index, options)
    for _ in range(settings.restarts):
        if episode is None or not _is_worth_another(episode):
            break
        _logger.warning("Episode %s %s: %s; playing its task anew.", episode["id"], episode["outcome"], _why(episode))
        episode = await _play(args, link, sample, index, options)
    if episode is None:
        return _aborted(sample, settings)
    if episode["outcome"] == "failed":
        _logger.warning("Episode %s failed: %s; none of its tokens are trained.", episode["id"], _why(episode))
    rows = (await link.client.episode_samples(episode["id"]))["samples"]
    keys = [key for name in ("reward_key", "eval_reward_key") if (key := getattr(args, name, None))]
    filled = fill_samples(sample, episode, rows, reward_keys=keys)
    if settings.branches == "list":
        return filled
    if len(filled) == 1:
        return filled[0]
    raise ConfigurationError(
        f"Cannot return episode {episode['id']} as one sample: it has {len(filled)} branches; start the service with --history "
        "keep-reasoning, set TRAINABLE_AGENTS_BRANCHES=list, or use --rollout-function-path "
        "trainable_agents.slime.generate_rollout."
    )


def generate_rollout(args: Any, rollout_id: int, data_source: Any, evaluation: bool = False) -> Any:
    """Runs a whole rollout by groups. Groups with a failed or aborted episode are replaced.

    Evaluation is slime's own, with `generate` for every sample.
    """
    from slime.utils.async_utils import run  # type: ignore[import-not-found]

    if evaluation:
        from slime.rollout.sglang_rollout import (  # type: ignore[import-not-found]
            generate_rollout as evaluate,
        )

        if getattr(args, "custom_generate_function_path", None) is None:
            args.custom_generate_function_path = "trainable_agents.slime.generate"
        return evaluate(args, rollout_id, data_source, evaluation=True)
    check_arguments(args, evaluation=False)
    output, left = run(roll_out(args, rollout_id, data_source))
    if left:
        data_source.add_samples(left)
    return output


def post_process_rewards(args: Any, samples: list[Any]) -> tuple[list[float], list[float]]:
    """The raw rewards of a batch, and the rewards normalised within each group; both aligned with `samples`.

    A group is the samples of equal `group_index`. Each of its episodes (equal `rollout_id`, else `index`) counts once, however
    many samples it has, and not at all if all its samples have `remove_sample`; removed samples get 0. As in slime, the mean is
    subtracted, and with `grpo_std_normalization` (except for reinforce_plus_plus_baseline) the result is divided by the
    standard deviation (with n - 1) plus 1e-6; with other estimators and with --disable-rewards-normalization rewards are
    unchanged. A group of one episode gets 0. Raises `ConfigurationError` for a sample without a group.
    """
    raw = [sample.get_reward_value(args) for sample in samples]
    if not compares_groups(args):
        return raw, raw
    groups: dict[int, dict[int, float]] = {}
    for sample, reward in zip(samples, raw, strict=True):
        if sample.group_index is None:
            raise ConfigurationError(f"Cannot compare the rewards of a group: sample {sample.index} has no group_index.")
        if not sample.remove_sample:
            groups.setdefault(sample.group_index, {})[_episode(sample)] = reward
    by_std = args.advantage_estimator != "reinforce_plus_plus_baseline" and getattr(args, "grpo_std_normalization", True)
    scales = {}
    for index, rewards in groups.items():
        values = list(rewards.values())
        std = statistics.stdev(values) if by_std and len(values) > 1 else 1.0
        scales[index] = (statistics.fmean(values), std + 1e-6 if by_std else 1.0)

    def normalised(sample: Any, reward: float) -> float:
        if sample.remove_sample:
            return 0.0
        mean, scale = scales[sample.group_index]
        return (reward - mean) / scale

    return raw, [normalised(sample, reward) for sample, reward in zip(samples, raw, strict=True)]


def _episode(sample: Any) -> int:
    return int(sample.index if sample.rollout_id is None else sample.rollout_id)


async def _play(args: Any, link: TrainerLink, sample: Any, index: int, options: dict[str, Any]) -> Episode | None:
    """Waits for the end of the episode; returns `None` if slime aborts the rollout."""
    metadata = sample.metadata or {}
    held = metadata.pop(HELD, None)
    starting = asyncio.ensure_future(
        link.client.start_episode(index, key=uuid.uuid4().hex, **options)
        if held is None
        else _pick_up(link.client, held, index, options)
    )
    try:
        # Shielded: the id of a started episode must be known, or it could not be ended.
        begun = await _unless_aborted(args, asyncio.shield(starting))
        episode = None if begun is None else await _unless_aborted(args, link.client.ended_episode(begun["id"]))
    except asyncio.CancelledError:
        await _leave(args, link, sample, starting)
        raise
    if episode is None:
        await _leave(args, link, sample, starting)
    return episode


async def _pick_up(client: Client, episode_id: str, index: int, options: dict[str, Any]) -> Episode:
    try:
        return await client.episode(episode_id)
    except NotFound:
        return await client.start_episode(index, **options)


async def _unless_aborted(args: Any, waiting: Awaitable[_T]) -> _T | None:
    task = asyncio.ensure_future(waiting)
    try:
        while True:
            await asyncio.wait({task}, timeout=_LOOK_SECONDS)
            if task.done():
                return task.result()
            if _is_aborting(args):
                return None
    finally:
        task.cancel()


async def _leave(args: Any, link: TrainerLink, sample: Any, starting: asyncio.Future[Episode]) -> None:
    try:
        episode_id = (await asyncio.wait_for(asyncio.shield(starting), 10))["id"]
        if getattr(args, "partial_rollout", False):
            sample.metadata = {**(sample.metadata or {}), HELD: episode_id}
            await link.hold()
        else:
            await asyncio.wait_for(link.client.cancel_episode(episode_id), 10)
    except (TrainableAgentsError, asyncio.TimeoutError) as error:
        starting.cancel()
        _logger.warning("Could not end an episode that slime no longer wants: %s", error)


def _is_aborting(args: Any) -> bool:
    """True if slime is ending its rollout. Its state is read only if slime has created one."""
    module = sys.modules.get("slime.rollout.sglang_rollout")
    state = getattr(module, "GenerateState", None)
    if state is None or state not in getattr(state, "_instances", {}):
        return False
    return bool(state(args).aborted)


def _is_worth_another(episode: Episode) -> bool:
    """True for a cancelled episode, and for a failure that may have been transient."""
    failure = episode["failure"]
    return episode["outcome"] == "aborted" or (failure is not None and failure["retryable"])


def _aborted(sample: Any, settings: Settings) -> Any:
    sample.status = type(sample).Status.ABORTED
    sample.reward = None
    return [sample] if settings.branches == "list" else sample


def _why(episode: Episode) -> str:
    return episode["failure"]["message"] if episode["failure"] else str(episode["stop_reason"])
