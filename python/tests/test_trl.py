"""Tests of `trainable_agents.trl` against the real service, with a stand-in for the trainer. TRL itself calls it in
`npm run verify -- trainers`.
"""

from __future__ import annotations

import sys
import unittest
from pathlib import Path
from types import SimpleNamespace
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from rollout_service import RolloutService  # noqa: E402
from trainable_agents.errors import ConfigurationError  # noqa: E402
from trainable_agents.trl import Rollouts, group_rows, reward, task_prompts, whole_groups  # noqa: E402


def trainer(size: int = 4, *, is_training: bool = True) -> Any:
    return SimpleNamespace(
        model=SimpleNamespace(training=is_training),
        num_generations=size,
        num_generations_eval=2,
        args=SimpleNamespace(temperature=1.0, top_p=1.0, top_k=0, min_p=None, repetition_penalty=1.0, max_completion_length=64),
        state=SimpleNamespace(global_step=0),
    )


class Groups(unittest.TestCase):
    def test_groups_are_whole_or_refused(self) -> None:
        self.assertEqual(whole_groups(["3", "3", "5", "5"], 2), [3, 5])
        self.assertEqual(task_prompts(2), [{"prompt": "0"}, {"prompt": "1"}])
        for prompts in (["3", "3", "3", "5"], ["3", "3", "5"], ["3", "5", "5", "3"]):
            with self.subTest(prompts), self.assertRaisesRegex(ConfigurationError, "multiple of num_generations"):
                whole_groups(prompts, 2)
        with self.assertRaisesRegex(ConfigurationError, "not a task index"):
            whole_groups(["Hello", "Hello"], 2)

    def test_every_episode_has_one_row(self) -> None:
        def episode(name: str, outcome: str) -> Any:
            return {"id": name, "outcome": outcome, "failure": None}

        def row(name: str, value: float | None) -> dict[str, Any]:
            return {
                "prompt_ids": [7, 8],
                "completion_ids": [9],
                "logprobs": [-1.0],
                "env_mask": [1],
                "reward": value,
                "group_id": "g",
                "metadata": {"episode_id": name},
            }

        found = group_rows(
            [episode("a", "completed"), episode("b", "failed"), episode("c", "truncated")], [row("c", 0.5), row("a", 1.0)]
        )
        self.assertEqual([one["reward"] for one in found], [1.0, None, 0.5])
        self.assertEqual([one["env_mask"] for one in found], [[1], [0], [1]])
        self.assertEqual({tuple(one) for one in found}, {tuple(row("a", 1.0))})
        with self.assertRaisesRegex(ConfigurationError, "--history keep-reasoning"):
            group_rows([episode("a", "completed")], [row("a", 1.0), row("a", 1.0)])


class Service(unittest.TestCase):
    def test_rows_come_in_the_order_of_the_prompts(self) -> None:
        service = RolloutService("--split", "train")
        self.addCleanup(service.close)
        rollouts = Rollouts(service=service.url)
        for is_training, size in ((True, 4), (False, 2)):
            prompts = [str(task) for task in (5, 2, 9) for _ in range(size)]
            found = rollouts(prompts, trainer(is_training=is_training))
            self.assertEqual({len(column) for column in found.values()}, {len(prompts)})
            tasks = [facts["task_id"] for facts in found["metadata"]]
            self.assertEqual(tasks, [f"bookshop:train:{prompt}" for prompt in prompts])
            self.assertEqual(len({facts["episode_id"] for facts in found["metadata"]}), len(prompts))
            for ids, mask, logprobs in zip(found["completion_ids"], found["env_mask"], found["logprobs"], strict=True):
                self.assertEqual((len(mask), len(logprobs)), (len(ids), len(ids)))
                self.assertIn(1, mask)
            self.assertEqual(reward([], reward=found["reward"]), found["reward"])


if __name__ == "__main__":
    unittest.main()
