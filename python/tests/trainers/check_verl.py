"""Runs our agent loop in verl's own AgentLoopWorker, with its configuration, registry, padding and advantages."""

from __future__ import annotations

import asyncio
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any

import hydra
import numpy
import torch
import verl
from embedded_engine import MODEL, EmbeddedEngine
from rollout_service import RolloutService
from trainable_agents.errors import ConfigurationError
from trainable_agents.prepare import main as prepare
from trainable_agents.trainer_link import close_links
from verl.experimental.agent_loop.agent_loop import AgentLoopWorker
from verl.protocol import DataProto
from verl.trainer.ppo.core_algos import compute_grpo_outcome_advantage
from verl.utils.dataset.rl_dataset import RLHFDataset, collate_fn

torch.set_num_threads(1)
SIZE = 4


class Servers:
    """Replaces verl's balancer, whose servers require a GPU: it returns the address of our server."""

    def __init__(self, url: str) -> None:
        self.address = url.removeprefix("http://")
        self.taken: list[str] = []
        self.released: list[str] = []

    async def _acquire_server(self, request_id: str, **_: Any) -> tuple[str, None]:
        self.taken.append(request_id)
        return self.address, None

    def _release_server(self, server_id: str, request_id: str) -> None:
        assert server_id == self.address
        self.released.append(request_id)


class Verl(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.engine = EmbeddedEngine()
        cls.service = RolloutService("--engine", "sglang", "--url", "http://127.0.0.1:9", "--model", str(MODEL))
        cls.folder = tempfile.TemporaryDirectory()
        cls.loops = Path(cls.folder.name) / "loops.yaml"
        cls.loops.write_text(
            f"- name: trainable_agents\n  _target_: trainable_agents.verl.Loop\n  url: {cls.service.url}\n", encoding="utf-8"
        )

    @classmethod
    def tearDownClass(cls) -> None:
        cls.service.close()
        cls.engine.close()
        cls.folder.cleanup()

    def worker(self, servers: Servers, *overrides: str) -> tuple[Any, AgentLoopWorker]:
        with hydra.initialize_config_dir(str(Path(verl.__file__).parent / "trainer" / "config"), version_base=None):
            config = hydra.compose(
                "ppo_trainer",
                [
                    f"actor_rollout_ref.model.path={MODEL}",
                    f"actor_rollout_ref.rollout.agent.agent_loop_config_path={self.loops}",
                    "actor_rollout_ref.rollout.name=sglang",
                    "actor_rollout_ref.rollout.calculate_log_probs=true",
                    "data.max_prompt_length=1024",
                    "data.max_response_length=900",
                    "data.return_raw_chat=true",
                    *overrides,
                ],
            )
        return config, AgentLoopWorker(config, servers)

    def batch(self, config: Any, tokenizer: Any, tasks: int) -> DataProto:
        """A batch as verl's trainer creates it: its data set, with each row repeated and a `uid` for each prompt."""
        path = Path(self.folder.name) / "tasks.jsonl"
        self.assertEqual(
            prepare(["--url", self.service.url, "--split", "train", "--output", str(path), "--for", "verl"]), 0
        )
        data = RLHFDataset(str(path), tokenizer, config.data)
        batch = DataProto.from_single_dict(collate_fn([data[index] for index in range(tasks)]))
        batch.non_tensor_batch["uid"] = numpy.array([f"prompt-{index}" for index in range(tasks)], dtype=object)
        return batch.repeat(SIZE, interleave=True)

    def run_batch(self, worker: AgentLoopWorker, batch: DataProto) -> DataProto:
        async def run() -> DataProto:
            try:
                return await worker.generate_sequences(batch)
            finally:
                await close_links()

        return asyncio.run(run())

    def test_a_batch_of_groups(self) -> None:
        servers = Servers(self.engine.url)
        config, worker = self.worker(servers)
        batch = self.batch(config, worker.tokenizer, 2)
        output = self.run_batch(worker, batch)
        self.assertEqual(len(output), 2 * SIZE)
        self.assertEqual((len(servers.taken), sorted(servers.released)), (2 * SIZE, sorted(servers.taken)))
        facts = output.non_tensor_batch["trainable_agents"]
        self.assertEqual([one["task_id"] for one in facts], [f"bookshop:train:{at // SIZE}" for at in range(2 * SIZE)])
        # Fields that verl merges into the original batch must not overwrite it.
        self.assertEqual(list(output.non_tensor_batch["uid"]), list(batch.non_tensor_batch["uid"]))
        rewards = {one["id"]: one["reward"] for one in self.service.lines("episodes.jsonl")}
        tensors = output.batch
        for at in range(2 * SIZE):
            mask = tensors["response_mask"][at].bool()
            self.assertTrue(mask.any())
            # Only sampled tokens have a logprob, and no padding is trained.
            self.assertTrue((tensors["rollout_log_probs"][at][~mask] == 0).all())
            self.assertTrue((tensors["attention_mask"][at][-mask.shape[0] :][mask] == 1).all())
            self.assertEqual(float(tensors["rm_scores"][at].sum()), rewards[facts[at]["episode_id"]])
        difference = self.worst_difference(worker, tensors)
        self.assertLess(difference, 1e-3)
        advantages, _ = compute_grpo_outcome_advantage(
            tensors["rm_scores"], tensors["response_mask"], output.non_tensor_batch["uid"]
        )
        self.assertTrue((advantages[~tensors["response_mask"].bool()] == 0).all())
        tokens = int(tensors["response_mask"].sum())
        print(f"\nverl: {len(output)} episodes, {tokens} trained tokens; largest difference from torch {difference:.1e}")

    def worst_difference(self, worker: AgentLoopWorker, tensors: Any) -> float:
        """Largest difference between the recorded logprobs and those of transformers on verl's own tensors."""
        from transformers import AutoModelForCausalLM

        model = AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.float32)
        width = tensors["responses"].shape[1]
        worst = 0.0
        for at in range(len(tensors["responses"])):
            with torch.no_grad():
                logits = model(
                    tensors["input_ids"][at : at + 1],
                    attention_mask=tensors["attention_mask"][at : at + 1],
                    position_ids=tensors["position_ids"][at : at + 1],
                ).logits[0, -width - 1 : -1]
            own = torch.log_softmax(logits, -1).gather(-1, tensors["responses"][at].unsqueeze(-1)).squeeze(-1)
            mask = tensors["response_mask"][at].bool()
            worst = max(worst, float((own - tensors["rollout_log_probs"][at])[mask].abs().max()))
        return worst

    def test_a_response_is_cut_off_and_a_prompt_is_not(self) -> None:
        config, worker = self.worker(Servers(self.engine.url), "data.max_response_length=40")
        output = self.run_batch(worker, self.batch(config, worker.tokenizer, 1))
        self.assertEqual(output.batch["responses"].shape, (SIZE, 40))
        config, worker = self.worker(Servers(self.engine.url), "data.max_prompt_length=100")
        with self.assertRaisesRegex(ConfigurationError, "max_prompt_length is 100"):
            self.run_batch(worker, self.batch(config, worker.tokenizer, 1))

    def test_what_fails_trains_nothing(self) -> None:
        servers = Servers("http://127.0.0.1:9")
        config, worker = self.worker(servers)
        with self.assertLogs("trainable_agents.verl", "WARNING"):
            output = self.run_batch(worker, self.batch(config, worker.tokenizer, 1))
        self.assertEqual(int(output.batch["response_mask"].sum()), 0)
        self.assertEqual(float(output.batch["rm_scores"].abs().sum()), 0.0)
        self.assertEqual({one["outcome"] for one in output.non_tensor_batch["trainable_agents"]}, {"failed"})


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
