"""slime's own rollout: one call of the custom generate function for each sample, a bounded number at a time, until enough
groups pass the filter; the rest is aborted and, with partial rollouts, returned to the data source.
"""

from __future__ import annotations

import asyncio
from typing import Any

from slime.rollout.base_types import RolloutFnEvalOutput, RolloutFnTrainOutput
from slime.rollout.filter_hub.base_types import MetricGatherer, call_dynamic_filter, should_drop_dynamic_filter_output
from slime.utils.async_utils import run
from slime.utils.misc import SingletonMeta, load_function
from slime.utils.types import Sample


class GenerateState(metaclass=SingletonMeta):
    def __init__(self, args: Any) -> None:
        self.args = args
        self.semaphore = asyncio.Semaphore(args.sglang_server_concurrency * args.rollout_num_engines)
        self.sampling_params = {
            "temperature": args.rollout_temperature,
            "top_p": args.rollout_top_p,
            "top_k": args.rollout_top_k,
            "max_new_tokens": args.rollout_max_response_len,
            "stop": args.rollout_stop,
            "stop_token_ids": args.rollout_stop_token_ids,
            "skip_special_tokens": args.rollout_skip_special_tokens,
            "no_stop_trim": True,
            "spaces_between_special_tokens": False,
        }
        self.reset()

    def reset(self) -> None:
        self.remaining_batch_size = 0
        self.pendings: set[asyncio.Task[Any]] = set()
        self.aborted = False


async def get(url: str) -> Any:
    raise NotImplementedError(url)


async def abort_servers_until_idle(urls: list[str]) -> None:
    raise NotImplementedError(urls)


async def generate_and_rm(args: Any, sample: Any, sampling_params: dict[str, Any], evaluation: bool = False) -> Any:
    if sample.status in (Sample.Status.COMPLETED, Sample.Status.TRUNCATED):
        return sample
    state = GenerateState(args)
    async with state.semaphore:
        if state.aborted:
            sample.status = Sample.Status.ABORTED
            return sample
        generate = load_function(sample.generate_function_path or args.custom_generate_function_path)
        result = await generate(args, sample, sampling_params, evaluation=evaluation)
    for one in result if isinstance(result, list) else [result]:
        assert one.reward is not None or one.status is Sample.Status.ABORTED, "there is no reward model here"
    return result


async def generate_and_rm_group(
    args: Any, group: list[Any], sampling_params: dict[str, Any], evaluation: bool = False
) -> list[Any]:
    if GenerateState(args).aborted:
        return group
    return await asyncio.gather(
        *(generate_and_rm(args, sample, sampling_params.copy(), evaluation=evaluation) for sample in group)
    )


async def abort(args: Any, rollout_id: int) -> list[list[Any]]:
    state = GenerateState(args)
    assert not state.aborted
    state.aborted = True
    workers = (await get(f"http://{args.sglang_router_ip}:{args.sglang_router_port}/workers"))["workers"]
    await abort_servers_until_idle([worker["url"] for worker in workers])
    groups = [await task for task in state.pendings]
    state.pendings = set()
    return groups if args.partial_rollout else []


async def _roll_out(args: Any, rollout_id: int, data_source: Any) -> tuple[Any, list[list[Any]]]:
    state = GenerateState(args)
    path = args.dynamic_sampling_filter_path
    dynamic_filter = None if path is None else load_function(path)
    gatherer = MetricGatherer()
    kept: list[list[Any]] = []
    while len(kept) < args.rollout_batch_size:
        while state.remaining_batch_size < args.rollout_batch_size:
            groups = data_source.get_samples(args.over_sampling_batch_size)
            for group in groups:
                play = generate_and_rm_group(args, group, state.sampling_params.copy())
                state.pendings.add(asyncio.create_task(play))
            state.remaining_batch_size += len(groups)
        done, state.pendings = await asyncio.wait(state.pendings, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            group = task.result()
            output = call_dynamic_filter(dynamic_filter, args, group)
            if should_drop_dynamic_filter_output(
                output, remaining_batch_size=state.remaining_batch_size, target_data_size=args.rollout_batch_size
            ):
                gatherer.on_dynamic_filter_drop(output.reason)
                state.remaining_batch_size -= 1
            elif len(kept) < args.rollout_batch_size:
                kept.append(group)
    aborted = await abort(args, rollout_id)
    state.reset()
    kept.sort(key=lambda group: group[0].index)
    return RolloutFnTrainOutput(samples=kept, metrics=gatherer.collect()), aborted


EVAL_SAMPLES: list[Any] = []
"""Samples of the only evaluation set. slime reads them from a file with a tokenizer."""


async def _evaluate(args: Any) -> Any:
    params = {"temperature": 0.0, "top_p": 1.0, "top_k": 1, "max_new_tokens": 64, "stop": None, "no_stop_trim": True}
    played = await asyncio.gather(*(generate_and_rm(args, sample, params, evaluation=True) for sample in EVAL_SAMPLES))
    samples = [one for result in played for one in (result if isinstance(result, list) else [result])]
    truncated = [sample.status is Sample.Status.TRUNCATED for sample in samples]
    rewards = [sample.reward for sample in samples]
    return RolloutFnEvalOutput(data={"dev": {"rewards": rewards, "truncated": truncated, "samples": samples}})


def generate_rollout(args: Any, rollout_id: int, data_source: Any, evaluation: bool = False) -> Any:
    if evaluation:
        return run(_evaluate(args))
    output, aborted = run(_roll_out(args, rollout_id, data_source))
    if aborted:
        data_source.add_samples(aborted)
    return output
