"""Tests that TensorBoard's own reader, with its checks of lengths and checksums, reads the output of `rollout --metrics
tensorboard`."""

from __future__ import annotations

import json
import subprocess
import tempfile
import unittest
from pathlib import Path

from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
from tensorboard.util import tensor_util

MAIN = Path(__file__).parent.parent.parent / "dist" / "cli" / "main.js"


class TensorBoard(unittest.TestCase):
    def test_reads_the_scalars_of_a_run(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "run"
            flags = ("--engine", "expert", "--tasks", "0-3", "--group-size", "2", "--metrics", "tensorboard", "--quiet")
            subprocess.run(["node", str(MAIN), "rollout", *flags, "--out", str(out)], check=True, capture_output=True)
            [file] = out.rglob("events.out.tfevents.*")
            scalars: dict[str, list[float]] = {}
            for event in EventFileLoader(str(file)).Load():
                for value in event.summary.value:
                    number = value.simple_value if value.WhichOneof("value") == "simple_value" else None
                    if number is None:
                        number = tensor_util.make_ndarray(value.tensor).item()
                    scalars.setdefault(value.tag, []).append(number)
            lines = (out / "groups.jsonl").read_text(encoding="utf-8").splitlines()
            rewards = [reward for line in lines for reward in json.loads(line)["rewards"]]
            self.assertEqual((len(rewards), sum(scalars["groups/kept"])), (8, 4))
            means = scalars["reward/mean"]
            self.assertAlmostEqual(means[0] if len(means) == 1 else sum(rewards) / 8, sum(rewards) / 8, places=6)
            self.assertTrue(all(0 <= mean <= 1 for mean in means))
            self.assertGreater(scalars["speed/sampled_tokens_per_second"][0], 0)


if __name__ == "__main__":
    unittest.main()
