"""slime's side of the tests: its arguments, a data source, stand-ins for engines, and filters named by path."""

from __future__ import annotations

import argparse
import copy
from typing import Any

from use_slime import SLIME_REPO, use_slime

use_slime()

import slime.rollout.sglang_rollout as sglang_rollout  # noqa: E402
from slime.utils.types import Sample  # noqa: E402

aborted_servers: list[list[str]] = []


async def _workers(url: str) -> dict[str, Any]:
    return {"workers": [{"url": url.removesuffix("/workers")}]}


async def _abort(urls: list[str]) -> None:
    aborted_servers.append(urls)


sglang_rollout.get = _workers
sglang_rollout.abort_servers_until_idle = _abort


def arguments(url: str, **changed: Any) -> argparse.Namespace:
    """Arguments as slime's own parser returns them. The engine is the service's, because there is no router here."""
    values: dict[str, Any] = {
        "trainable_agents_url": url,
        "trainable_agents_engine": "service",
        "sglang_router_ip": "127.0.0.1",
        "sglang_router_port": 9,
        "sglang_server_concurrency": 64,
        "sglang_dp_size": 1,
        "rollout_num_engines": 1,
        "hf_checkpoint": "none",
        "rollout_temperature": 1.0,
        "rollout_top_p": 1.0,
        "rollout_top_k": -1,
        "rollout_max_response_len": 256,
        "rollout_stop": None,
        "rollout_stop_token_ids": None,
        "rollout_skip_special_tokens": False,
        "rollout_seed": 42,
        "rollout_global_dataset": True,
        "rollout_batch_size": 2,
        "over_sampling_batch_size": 3,
        "n_samples_per_prompt": 4,
        "dynamic_sampling_filter_path": None,
        "rollout_sample_filter_path": None,
        "rollout_all_samples_process_path": None,
        "custom_generate_function_path": "trainable_agents.slime.generate",
        "partial_rollout": False,
        "mask_offpolicy_in_partial_rollout": False,
        "use_rollout_routing_replay": False,
        "group_rm": False,
        "advantage_estimator": "grpo",
        "rewards_normalization": True,
        "grpo_std_normalization": True,
        "custom_reward_post_process_path": "trainable_agents.slime.post_process_rewards",
        "reward_key": None,
        "eval_reward_key": None,
        "ci_test": False,
        "metadata_key": "metadata",
    }
    sglang_rollout.GenerateState.clear_instances()
    return argparse.Namespace(**{**values, **changed})


PARAMS: dict[str, Any] = {
    "temperature": 1.0,
    "top_p": 1.0,
    "top_k": -1,
    "max_new_tokens": 256,
    "stop": None,
    "stop_token_ids": None,
    "skip_special_tokens": False,
    "no_stop_trim": True,
    "spaces_between_special_tokens": False,
}
"""A sample as slime passes it to `generate`."""


def make_sample(task: Any, index: int = 0, **changed: Any) -> Any:
    return Sample(prompt=task, index=index, group_index=index // 4, **changed)


class DataSource:
    """A data source that yields returned samples first, then tasks in order."""

    def __init__(self, args: Any, tasks: int = 16) -> None:
        self.args = args
        self.tasks = tasks
        self.buffer: list[list[Any]] = []
        self.groups = 0

    def get_samples(self, count: int) -> list[list[Any]]:
        taken, self.buffer = self.buffer[:count], self.buffer[count:]
        while len(taken) < count:
            size = self.args.n_samples_per_prompt
            first = make_sample(self.groups % self.tasks)
            group = [copy.deepcopy(first) for _ in range(size)]
            for place, sample in enumerate(group):
                sample.group_index = self.groups
                sample.index = self.groups * size + place
            self.groups += 1
            taken.append(group)
        return taken

    def add_samples(self, groups: list[list[Any]]) -> None:
        self.buffer += groups


def evaluation_set(args: Any, samples: list[Any]) -> None:
    """The data set that `generate_rollout(evaluation=True)` runs, under the name "dev"."""
    if SLIME_REPO is None:
        sglang_rollout.EVAL_SAMPLES[:] = samples
        return
    sglang_rollout.Dataset = lambda **_: argparse.Namespace(samples=samples)
    named = ("temperature", "top_p", "top_k", "max_response_len", "n_samples_per_eval_prompt", "min_new_tokens")
    wanted = dict(zip(named, (0.0, 1.0, 1, 64, 1, None), strict=True))
    other = ("stop", "stop_token_ids", "skip_special_tokens", "no_stop_trim", "repetition_penalty", "custom_rm_path")
    keys = ("multimodal_keys", "apply_chat_template", "apply_chat_template_kwargs", "input_key", "label_key", "tool_key")
    config = argparse.Namespace(
        name="dev",
        path="dev.jsonl",
        cache_key=(id(samples),),
        metadata_key="metadata",
        inject_metadata=lambda given: given or {},
    )
    for key, value in {**wanted, **dict.fromkeys((*other, *keys))}.items():
        setattr(config, key, value)
    args.eval_datasets = [config]
    args.multimodal_keys = args.apply_chat_template_kwargs = args.eval_max_prompt_len = None
    args.apply_chat_template = False


def keep_even_groups(args: Any, samples: list[Any], **_: Any) -> Any:
    """A dynamic filter that expects one reward per episode and keeps every second group."""
    from slime.rollout.filter_hub.base_types import DynamicFilterOutput

    assert [type(sample.get_reward_value(args)) for sample in samples] == [float] * args.n_samples_per_prompt
    return DynamicFilterOutput(keep=samples[0].group_index % 2 == 0, reason="odd")
