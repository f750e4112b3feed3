"""slime's own conversion, schedule and loss compute on rows of the real service, with the checkout that SLIME_REPO names."""

from __future__ import annotations

import asyncio
import copy
import os
import unittest
from typing import Any

import torch
from embedded_engine import MODEL, EmbeddedEngine
from rollout_service import RolloutService

SLIME_REPO = os.environ.get("SLIME_REPO") or None
torch.set_num_threads(1)
SIZE, GROUPS = 4, 3
LEARNING: dict[str, Any] = {
    "advantage_estimator": "grpo",
    "n_samples_per_prompt": SIZE,
    "rollout_batch_size": GROUPS,
    "global_batch_size": GROUPS * SIZE,
    "micro_batch_size": 1,
    "use_dynamic_batch_size": False,
    "max_tokens_per_gpu": None,
    "balance_data": False,
    "balance_by_flops": False,
    "loss_type": "policy_loss",
    "kl_coef": 0.0,
    "entropy_coef": 0.0,
    "eps_clip": 0.2,
    "eps_clip_high": 0.28,
    "eps_clip_c": None,
    "log_probs_chunk_size": -1,
    **dict.fromkeys(
        (
            "allgather_cp",
            "calculate_per_token_loss",
            "get_mismatch_metrics",
            "normalize_advantages",
            "recompute_loss_function",
            "use_kl_loss",
            "use_opd",
            "use_opsm",
            "use_rollout_logprobs",
            "use_tis",
        ),
        False,
    ),
    **dict.fromkeys(("custom_advantage_function_path", "custom_tis_function_path")),
}


@unittest.skipIf(SLIME_REPO is None, "SLIME_REPO names no checkout of slime, which is on no registry")
class Slime(unittest.TestCase):
    def setUp(self) -> None:
        import ray
        from use_slime import use_learning_slime

        use_learning_slime()
        # The manager is an actor of ray; here it is an object, and objects that it puts into ray's store are kept unchanged.
        ray.remote = lambda *given, **_: given[0] if given else lambda one: one
        ray.put = lambda value, **_: value
        import slime.ray.rollout as rollout
        import slime_world

        self.rollout, self.world = rollout, slime_world

    def roll_out(self) -> tuple[Any, list[Any]]:
        from trainable_agents.slime import generate
        from trainable_agents.trainer_link import close_links

        engine = EmbeddedEngine()
        self.addCleanup(engine.close)
        service = RolloutService("--engine", "sglang", "--url", engine.url, "--model", str(MODEL), "--split", "train")
        self.addCleanup(service.close)
        args = self.world.arguments(service.url, **LEARNING)

        async def run() -> list[Any]:
            samples = [self.world.make_sample(number // SIZE, number) for number in range(GROUPS * SIZE)]
            try:
                return await asyncio.gather(*(generate(args, one, dict(self.world.PARAMS)) for one in samples))
            finally:
                await close_links()

        return args, asyncio.run(run())

    def manager(self, args: Any) -> Any:
        manager = object.__new__(self.rollout.RolloutManager)
        path = args.custom_reward_post_process_path
        manager.args = args
        manager.custom_reward_post_process_func = None if path is None else self.rollout.load_function(path)
        manager.custom_convert_samples_to_train_data_func = None
        manager.train_parallel_config = {
            "dp_size": 1,
            "cp_size": 1,
            "vpp_size": 1,
            "microbatch_group_size_per_vp_stage": 1,
        }
        return manager

    def test_conversion_schedule_and_loss(self) -> None:
        from slime.backends.megatron_utils.loss import compute_advantages_and_returns, loss_function
        from transformers import AutoModelForCausalLM

        args, samples = self.roll_out()
        # The first group passes as a whole, with one of its episodes in two samples; the last episode of the second failed.
        for sample in samples[:SIZE]:
            sample.reward = 1.0
        for number, sample in enumerate(samples[SIZE:]):
            sample.reward = float(number % 2 == 0)
        failed = samples[2 * SIZE - 1]
        failed.remove_sample, failed.loss_mask = True, [0] * failed.response_length
        second = copy.deepcopy(samples[0])
        half = second.response_length // 2
        second.loss_mask = [0] * half + second.loss_mask[half:]
        samples[0].loss_mask = samples[0].loss_mask[:half] + [0] * (len(second.loss_mask) - half)
        samples.insert(1, second)

        args.custom_reward_post_process_path = None
        _, positional = self.manager(args)._post_process_rewards(samples)
        self.assertGreater(min(positional[: SIZE + 1]), 0.5, "slime's own grouping gives a group without a difference a baseline")
        args.custom_reward_post_process_path = "trainable_agents.slime.post_process_rewards"
        manager = self.manager(args)
        data = manager._convert_samples_to_train_data(samples)
        self.assertEqual(data["rewards"][: SIZE + 1], [0.0] * (SIZE + 1))
        self.assertEqual(data["rewards"][2 * SIZE], 0.0)
        # Rewards of the three episodes that count: 1, 0, 1.
        self.assertAlmostEqual(data["rewards"][SIZE + 1], (1 - 2 / 3) / (3**-0.5 + 1e-6), places=5)
        self.assertEqual(set(data["source_names"]), {"bookshop"})
        [box] = manager._split_train_data_by_dp(data)
        batch = box.inner
        self.assertEqual(len(batch["tokens"]), GROUPS * SIZE + 1)

        model = AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.float32)
        compute_advantages_and_returns(args, batch)
        loss, worst = 0.0, 0.0
        for micro in batch["micro_batch_indices"]:
            part = {name: [batch[name][at] for at in micro] for name in batch if self.is_by_sample(batch, name)}
            part["unconcat_tokens"] = part["tokens"]
            part["total_lengths"] = [len(one) for one in part["tokens"]]
            part["rollout_mask_sums"] = batch["rollout_mask_sums"][micro]
            logits = model(part["tokens"][0][None]).logits
            one, _, logged = loss_function(args, part, len(batch["micro_batch_indices"]), args.global_batch_size, logits)
            one.backward()
            loss += float(one.detach())
            values = dict(zip(logged["keys"], logged["values"][1:].tolist(), strict=True))
            worst = max(worst, values["train_rollout_logprob_abs_diff"])
        self.assertLess(worst, 1e-3)
        # At a ratio of 1 every episode adds its advantage, spread over its tokens; the micro-batches are summed by Megatron.
        episodes = {sample.rollout_id: reward for sample, reward in zip(samples, data["rewards"], strict=True)}
        expected = -sum(episodes.values()) / args.global_batch_size * len(batch["micro_batch_indices"])
        self.assertAlmostEqual(loss, expected, places=4)
        self.assertTrue(all(bool(torch.isfinite(one.grad).all()) for one in model.parameters()))
        tokens = sum(sum(mask.tolist()) for mask in batch["loss_masks"])
        print(f"\nslime: {len(samples)} samples, {tokens} trained tokens; loss as computed by hand; logprobs within {worst:.1e} (mean)")

    def is_by_sample(self, batch: dict[str, Any], name: str) -> bool:
        return isinstance(batch[name], list) and len(batch[name]) == len(batch["tokens"]) and name != "micro_batch_indices"


if __name__ == "__main__":
    unittest.main()
