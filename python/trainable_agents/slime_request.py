"""Requests to the service for samples of slime: the body of a request, and the settings of slime that are not supported."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .errors import ConfigurationError
from .settings import Settings

_SEEDS = 2**32
REWARD_POST_PROCESS = "trainable_agents.slime.post_process_rewards"
GROUP_ESTIMATORS = ("grpo", "gspo", "cispo", "reinforce_plus_plus_baseline")
"""Advantage estimators of slime that compare the rewards of a group."""


def check_arguments(args: Any, *, evaluation: bool) -> None:
    """Raises `ConfigurationError` for settings that slime would reject only after the rollout."""
    if evaluation:
        return
    if getattr(args, "rollout_top_p", 1.0) != 1.0:
        raise ConfigurationError(
            f"Cannot train with --rollout-top-p {args.rollout_top_p}: slime then wants the nucleus of every token, which an "
            "episode does not carry; set --rollout-top-p 1."
        )
    if getattr(args, "rollout_top_k", None) not in (None, -1):
        raise ConfigurationError(
            f"Cannot train with --rollout-top-k {args.rollout_top_k}: slime computes logprobs over the whole vocabulary, which "
            "is not what was sampled from then; set --rollout-top-k -1."
        )
    if compares_groups(args) and not any(
        getattr(args, name, None)
        for name in ("custom_reward_post_process_path", "custom_convert_samples_to_train_data_path")
    ):
        raise ConfigurationError(
            f"Cannot train with --advantage-estimator {args.advantage_estimator}: slime groups rewards by their position, so an "
            "episode of several samples makes one group of the whole batch, and a failed episode counts as reward 0; add "
            f"--custom-reward-post-process-path {REWARD_POST_PROCESS}."
        )
    if getattr(args, "use_rollout_routing_replay", False):
        raise ConfigurationError(
            "Cannot train with --use-rollout-routing-replay: an episode does not carry the routed experts; remove it."
        )
    if getattr(args, "partial_rollout", False) and getattr(args, "mask_offpolicy_in_partial_rollout", False):
        raise ConfigurationError(
            "Cannot use --mask-offpolicy-in-partial-rollout: slime masks by sample what an episode has by turn; remove it, "
            "and correct for the age of tokens with --use-tis."
        )


def compares_groups(args: Any) -> bool:
    """True if slime turns rewards into differences from the mean of their group."""
    return getattr(args, "advantage_estimator", None) in GROUP_ESTIMATORS and bool(getattr(args, "rewards_normalization", True))


def request_options(
    args: Any,
    metadata: Mapping[str, Any] | None,
    sampling_params: Mapping[str, Any],
    *,
    number: int | None,
    evaluation: bool,
    settings: Settings,
) -> dict[str, Any]:
    """Options of `Client.start_episode` and `start_group`. The seed derives from `number`, the sample's or the group's."""
    return {
        "split": (metadata or {}).get("split") or (settings.eval_split if evaluation else settings.split),
        "seed": _seed(args, number),
        "sampling_params": _sampling(sampling_params),
        "engine": _engine(args, settings),
    }


def task_index(sample: Any) -> int:
    """The prompt of a sample is the index of its task; a filled sample has the index in its metadata."""
    for given in (sample.prompt, (sample.metadata or {}).get("task_index")):
        if isinstance(given, int) or (isinstance(given, str) and given.strip().isdecimal()):
            return int(given)
    raise ConfigurationError(
        f"Cannot find the task of a sample: its prompt is {str(sample.prompt)[:80]!r} and no task index; make the data with "
        "`python -m trainable_agents.prepare` and pass --input-key index, without --apply-chat-template."
    )


def _sampling(given: Mapping[str, Any]) -> dict[str, Any]:
    sampling = {name: value for name, value in given.items() if value is not None}
    # slime passes top-p to the engine itself with this; `check_arguments` refuses the cases in which that matters.
    sampling.pop("custom_params", None)
    if sampling.get("min_new_tokens") == 0:
        del sampling["min_new_tokens"]
    return sampling


def _seed(args: Any, number: int | None) -> int | None:
    """The same --rollout-seed gives the same episodes; slime's numbers are unique within a training."""
    seed = getattr(args, "rollout_seed", None)
    if seed is None or number is None:
        return None
    return int((seed * 1_000_003 + number) % _SEEDS)


def _engine(args: Any, settings: Settings) -> dict[str, Any] | None:
    host, port = getattr(args, "sglang_router_ip", None), getattr(args, "sglang_router_port", None)
    if settings.engine == "service" or host is None or port is None:
        return None
    return {"router_ip": str(host).strip("[]"), "router_port": int(port)}
