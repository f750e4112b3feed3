"""TRL's own GRPOTrainer trains bookshop-1m for three steps on rows of the real service, its weights synchronised each time."""

from __future__ import annotations

import tempfile
import unittest
import warnings
from typing import Any

import torch
from datasets import Dataset
from embedded_engine import MODEL, EmbeddedEngine
from rollout_service import RolloutService
from trainable_agents.trl import Rollouts, reward, task_prompts
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import GRPOConfig, GRPOTrainer

warnings.filterwarnings("ignore", category=UserWarning)
torch.set_num_threads(1)

STEPS, GROUPS, SIZE = 3, 2, 4


class Recorder(GRPOTrainer):
    """Records, for every rollout, the logprobs that TRL itself computes for its tokens with its weights at that time."""

    def _generate_and_score_completions(self, inputs: Any) -> Any:
        output = super()._generate_and_score_completions(inputs)
        ids = torch.cat([output["prompt_ids"], output["completion_ids"]], dim=1)
        attention = torch.cat([output["prompt_mask"], output["completion_mask"]], dim=1)
        with torch.no_grad():
            own, _, _ = self._get_per_token_logps_and_entropies(
                self.model, ids, attention, output["completion_ids"].shape[1], batch_size=2
            )
        trained = (output["completion_mask"] * output["tool_mask"]).bool()
        difference = (own - output["sampling_per_token_logps"])[trained].abs()
        self.seen.append((int(trained.sum()), float(difference.max()), output["advantages"].tolist()))
        return output


class Trl(unittest.TestCase):
    def test_three_steps_of_grpo(self) -> None:
        engine = EmbeddedEngine()
        self.addCleanup(engine.close)
        service = RolloutService("--engine", "sglang", "--url", engine.url, "--model", str(MODEL), "--split", "train")
        self.addCleanup(service.close)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        config = GRPOConfig(
            output_dir=folder.name,
            max_steps=STEPS,
            per_device_train_batch_size=GROUPS * SIZE,
            num_generations=SIZE,
            max_completion_length=256,
            learning_rate=1e-4,
            logging_steps=1,
            report_to=[],
            disable_tqdm=True,
            use_cpu=True,
            bf16=False,
            save_strategy="no",
            seed=1,
        )
        model = AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.float32)
        versions: list[set[tuple[str, str]]] = []

        def graded(completions: list[Any], metadata: list[dict[str, Any]], **columns: Any) -> list[float]:
            versions.extend({(span["dispatch"], span["reply"]) for span in one["weight_spans"]} for one in metadata)
            return reward(completions, **columns)

        before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
        trainer = Recorder(
            model=model,
            processing_class=AutoTokenizer.from_pretrained(MODEL),
            args=config,
            train_dataset=Dataset.from_list(task_prompts(16)),
            reward_funcs=[graded],
            rollout_func=Rollouts(service=service.url, engine=engine.url),
        )
        trainer.seen = []
        trainer.train()
        self.assertEqual(len(trainer.seen), STEPS)
        worst = max(difference for _, difference, _ in trainer.seen)
        self.assertLess(worst, 1e-3)
        self.assertTrue(all(count > 50 for count, _, _ in trainer.seen))
        for _, _, advantages in trainer.seen:
            for at in range(0, GROUPS * SIZE, SIZE):
                self.assertAlmostEqual(sum(advantages[at : at + SIZE]), 0.0, delta=1e-3)
        episodes = service.lines("episodes.jsonl")
        self.assertEqual(len(episodes), STEPS * GROUPS * SIZE)
        # The rows of step n were sampled only from the weights of step n.
        for step in range(STEPS):
            own = versions[step * GROUPS * SIZE : (step + 1) * GROUPS * SIZE]
            self.assertEqual(own, [{(str(step), str(step))}] * (GROUPS * SIZE))
        moved = max(float((model.state_dict()[name] - tensor).abs().max()) for name, tensor in before.items())
        self.assertGreater(moved, 1e-6)
        tokens = sum(count for count, _, _ in trainer.seen)
        print(f"\nTRL: {STEPS} steps, {tokens} trained tokens; largest difference from TRL's logprobs {worst:.1e}")


if __name__ == "__main__":
    unittest.main()
