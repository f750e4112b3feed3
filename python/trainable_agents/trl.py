"""TRL's GRPO trainer rolls out through the service: `Rollouts` is its `rollout_func`, `reward` its reward function.

The prompt of a data set's row is the index of the task, as text. TRL repeats it `num_generations` times and compares rewards by
position, so every group is requested whole and handed back whole, one row for each episode, in order. Before the first rollout
after a step, the weights are saved, and the service's engine loads them: rows are always sampled from the weights that TRL
holds. TRL is not imported here; `Rollouts.__call__` shows what is used of the trainer.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .client import Client
from .connection import PATIENCE
from .engine import load_weights
from .errors import ConfigurationError
from .formats import trl_reward as reward
from .formats import trl_rollout
from .wire import Episode

__all__ = ["Rollouts", "reward", "task_prompts"]


class Rollouts:
    """Pass one to `GRPOTrainer(rollout_func=...)`, with `reward_funcs=[trainable_agents.trl.reward]`.

    `engine` is the address of the server that the service samples from (`serve --url`); it must support
    `/update_weights_from_disk` (`trainable-agents engine`, SGLang) and be able to read `folder`, where weights are written
    (default: a temporary one). With `None` the weights are not synchronised: for an engine that another program updates.
    `split` and `service` (the address) default as in `Client`; `engine_key` and `token` are the servers' keys.

    An episode that failed or was aborted has no reward: its row holds one token outside the loss, and TRL excludes it from its
    group's mean. Raises `ConfigurationError` for prompts that are not tasks, for groups that are split, and for
    episodes of several branches.
    """

    def __init__(
        self,
        *,
        service: str | None = None,
        engine: str | None = None,
        split: str | None = None,
        folder: str | Path | None = None,
        token: str | None = None,
        engine_key: str | None = None,
    ) -> None:
        self._service, self._token = service, token
        self._engine, self._engine_key = engine, engine_key
        self._split = split
        self._folder = Path(tempfile.mkdtemp(prefix="weights-") if folder is None else folder)
        self._synced: int | None = None

    def __call__(self, prompts: Sequence[Any], trainer: Any) -> dict[str, list[Any]]:
        self._sync(trainer)
        is_training = trainer.model.training
        size = trainer.num_generations if is_training else trainer.num_generations_eval
        tasks = whole_groups(prompts, size)
        args = trainer.args
        sampling = {"temperature": args.temperature, "top_p": args.top_p, "max_new_tokens": args.max_completion_length}
        for name, off in (("top_k", 0), ("min_p", None), ("repetition_penalty", 1.0)):
            if (value := getattr(args, name, off)) not in (off, None):
                sampling[name] = value
        return asyncio.run(self._roll_out(tasks, size, sampling))

    def _sync(self, trainer: Any) -> None:
        step = trainer.state.global_step
        if self._engine is None or step == self._synced:
            return
        accelerator = trainer.accelerator
        # Every process participates: with sharded weights each holds a part of them.
        state = accelerator.get_state_dict(trainer.model)
        if accelerator.is_main_process:
            folder = self._folder / f"step-{step}"
            model = accelerator.unwrap_model(trainer.model)
            load_weights(
                folder,
                step,
                engine=self._engine,
                save=lambda place: model.save_pretrained(place, state_dict=state),
                service=self._service,
                engine_key=self._engine_key,
                token=self._token,
            )
            shutil.rmtree(folder)
        accelerator.wait_for_everyone()
        self._synced = step

    async def _roll_out(self, tasks: Sequence[int], size: int, sampling: dict[str, Any]) -> dict[str, list[Any]]:
        async with Client(self._service, token=self._token, patience=PATIENCE) as client:

            async def play(task: int) -> list[dict[str, Any]]:
                started = await client.start_group(task, size, split=self._split, sampling_params=sampling)
                group = await client.ended_group(started["id"])
                rows = (await client.group_samples(group["id"], format="trl"))["samples"]
                return group_rows(group["episodes"], rows)

            groups = await asyncio.gather(*(play(task) for task in tasks))
        return trl_rollout(row for group in groups for row in group)


def task_prompts(count: int) -> list[dict[str, str]]:
    """Rows of a data set with a prompt for each of the first `count` tasks of a split: `Dataset.from_list(task_prompts(64))`."""
    return [{"prompt": str(index)} for index in range(count)]


def whole_groups(prompts: Sequence[Any], size: int) -> list[int]:
    """The task of each group of `size` equal prompts. TRL finds groups by position, so an incomplete group shifts all that
    follow."""
    tasks = [_task(prompt) for prompt in prompts]
    groups = [tasks[at : at + size] for at in range(0, len(tasks), size)]
    if any(len(group) != size or len(set(group)) != 1 for group in groups):
        raise ConfigurationError(
            f"Cannot roll out {len(tasks)} prompts in groups of {size}: a group is cut in pieces, and TRL compares rewards by "
            "position; make per_device_train_batch_size * steps_per_generation (in evaluation per_device_eval_batch_size) a "
            "multiple of num_generations."
        )
    return [group[0] for group in groups]


def group_rows(episodes: Sequence[Episode], rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row for each episode, in order."""
    by_episode: dict[str, list[dict[str, Any]]] = {episode["id"]: [] for episode in episodes}
    for row in rows:
        by_episode[row["metadata"]["episode_id"]].append(row)
    return [_row(episode, by_episode[episode["id"]], rows) for episode in episodes]


def _row(episode: Episode, own: list[dict[str, Any]], all_rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    if len(own) > 1:
        raise ConfigurationError(
            f"Cannot hand TRL episode {episode['id']}: it has {len(own)} branches, and TRL takes one row for each; start the "
            "service with --history keep-reasoning."
        )
    if len(own) == 1 and episode["outcome"] in ("completed", "truncated") and own[0]["reward"] is not None:
        return own[0]
    # TRL requires a completion; this token is outside the loss. The other columns are those of any row.
    likeness = dict.fromkeys(name for row in all_rows for name in row)
    prompt = next((row["prompt_ids"] for row in all_rows), [0])
    return {
        **likeness,
        "prompt_ids": list(prompt),
        "completion_ids": [0],
        "logprobs": [0.0],
        "env_mask": [0],
        "reward": None,
        "metadata": {"episode_id": episode["id"], "outcome": episode["outcome"], "failure": episode["failure"]},
    }


def _task(prompt: Any) -> int:
    if isinstance(prompt, int) or (isinstance(prompt, str) and prompt.strip().isdecimal()):
        return int(prompt)
    raise ConfigurationError(
        f"Cannot find the task of a prompt: {str(prompt)[:80]!r} is not a task index; make the data set with "
        "trainable_agents.trl.task_prompts."
    )

