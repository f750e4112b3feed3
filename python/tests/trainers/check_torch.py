"""Trains bookshop-1m with plain torch on rows of the real service. Brief by default; with TRAINING_MINUTES it trains for that
long, and then the greedy policy must pass more of the held-out tasks than before, by more than chance explains.
"""

from __future__ import annotations

import os
import tempfile
import time
import unittest
from pathlib import Path
from typing import Any

import torch
from embedded_engine import MODEL, EmbeddedEngine
from held_out import interval, passed
from rollout_service import RolloutService
from trainable_agents.torch_grpo import _Waits, group_advantages, group_loss, train
from transformers import AutoModelForCausalLM

torch.set_num_threads(1)
MINUTES = float(os.environ.get("TRAINING_MINUTES") or 0)
HELD_OUT = 420


def load() -> Any:
    return AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.float32)


class Torch(unittest.TestCase):
    def start(self) -> tuple[EmbeddedEngine, RolloutService]:
        engine = EmbeddedEngine("--weight-version", "0")
        self.addCleanup(engine.close)
        service = RolloutService("--engine", "sglang", "--url", engine.url, "--model", str(MODEL), "--split", "train")
        self.addCleanup(service.close)
        return engine, service

    def test_training(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        engine, service = self.start()
        model, said = load(), []
        weights = Path(folder.name)
        limits = {"minutes": MINUTES} if MINUTES > 0 else {"minutes": 60, "steps": 2, "groups": 3, "episodes": 4}
        if MINUTES > 0:
            before = [passed(MODEL, weights / f"eval-before-{how}", how, HELD_OUT) for how in (1, 0)]
        began = time.monotonic()

        def say(line: str) -> None:
            said.append(line)
            print(line, flush=True)

        print()
        version = train(model, service=service.url, engine=engine.url, folder=weights, split="train", source=MODEL, say=say, **limits)
        minutes = (time.monotonic() - began) / 60
        drifts = [float(line.split("logprob ")[1].split()[0]) for line in said]
        # At staleness 0 the recorded logprobs equal those of the trained weights in every step.
        self.assertLess(max(drifts), 1e-3)
        self.assertEqual(version, len(said))
        self.assertTrue((weights / str(version) / "model.safetensors").exists())
        if MINUTES == 0:
            print(f"torch: {version} steps; largest difference of a logprob {max(drifts):.1e}")
            return
        last = weights / str(version)
        after = [passed(last, weights / f"eval-after-{how}", how, HELD_OUT) for how in (1, 0)]
        gains = [interval([now[task] - was[task] for task in was]) for was, now in zip(before, after, strict=True)]
        for how, was, now, (mean, low, high) in zip(("at temperature 1", "greedily"), before, after, gains, strict=True):
            rates = " to ".join(f"{100 * sum(one.values()) / HELD_OUT:.1f} %" for one in (was, now))
            print(f"torch: {version} steps in {minutes:.1f} minutes; {HELD_OUT} held-out tasks {how}: {rates}, {mean:+.1f} points ({low:.1f} to {high:.1f})")
        print(f"largest difference of a logprob {max(drifts):.1e}")
        self.assertGreater(gains[1][1], 0)

    def test_a_packed_group_is_its_rows_one_by_one(self) -> None:
        torch.manual_seed(0)
        model, reference = load(), load()
        common = torch.randint(0, 1500, (30,)).tolist()
        rows = []
        for number, length in enumerate((5, 12, 9)):
            own = torch.randint(0, 1500, (length,)).tolist()
            tokens = [*common, *own]
            # The second row's response begins within the common prefix.
            response = length + (4 if number == 1 else 0)
            mask = [(place + number) % 3 != 0 for place in range(response)]
            rows.append(
                {
                    "tokens": tokens,
                    "response_length": response,
                    "loss_mask": [int(one) for one in mask],
                    "rollout_log_probs": [-0.5 - place / 10 for place in range(response)],
                    "reward": float(number == 1),
                    "metadata": {"episode_id": str(number)},
                }
            )
        advantages = group_advantages(rows)
        self.assertAlmostEqual(sum(advantages), 0.0, places=5)
        packed = group_loss(model, rows, advantages, temperature=0.7)
        packed.loss.backward()
        total = torch.zeros(())
        for row, advantage in zip(rows, advantages, strict=True):
            ids = torch.tensor([row["tokens"]])
            first = len(row["tokens"]) - row["response_length"]
            logprobs = torch.log_softmax(reference(ids).logits[0, first - 1 : -1] / 0.7, -1)
            new = logprobs.gather(-1, ids[0, first:, None])[:, 0]
            ratio = (new - torch.tensor(row["rollout_log_probs"])).exp()
            losses = -torch.minimum(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage)
            total = total + (losses * torch.tensor(row["loss_mask"])).sum()
        total.backward()
        self.assertEqual(packed.tokens, sum(sum(row["loss_mask"]) for row in rows))
        self.assertAlmostEqual(float(packed.loss.detach()), float(total.detach()), delta=1e-4)
        theirs = dict(reference.named_parameters())
        for name, parameter in model.named_parameters():
            torch.testing.assert_close(parameter.grad, theirs[name].grad, atol=1e-4, rtol=1e-3)

    def test_a_wait_ends_with_its_reason(self) -> None:
        said: list[str] = []
        waits = _Waits(most_silent=6)
        self.assertFalse(waits.look(2, False, said.append))
        self.assertFalse(waits.look(2, False, said.append))
        self.assertEqual(said, ["waiting: 2 groups without signal so far"])
        # A batch follows two of them, so the count starts again.
        self.assertEqual(waits.taken(0.25), 2)
        self.assertFalse(waits.look(7, False, said.append))
        self.assertTrue(waits.look(8, False, said.append))
        self.assertEqual(
            waits.reason, "6 groups in a row had no signal: the episodes of a task all earn the same, and the last batch earned 0.25 on average"
        )
        late = _Waits(most_silent=6)
        self.assertTrue(late.look(1, True, said.append))
        self.assertEqual(late.reason, "the minutes are over, 1 groups without signal after the last batch")

    def test_an_episode_counts_once_in_its_group(self) -> None:
        rows = [{"reward": reward, "metadata": {"episode_id": name}} for name, reward in (("a", 1), ("a", 1), ("b", 0))]
        self.assertEqual([round(one, 3) for one in group_advantages(rows)], [1.0, 1.0, -1.0])


if __name__ == "__main__":
    unittest.main()
