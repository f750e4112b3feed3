"""Torch renormalized over the kept ids of each token: numbers in closed form, replies of SGLang 0.5.23 with bookshop-1m, and the
losses of torch_grpo and torch_learner. Requires torch, transformers and peft; takes seconds.
"""

from __future__ import annotations

import json
import math
import unittest
from pathlib import Path
from typing import Any

import numpy
import torch
from check_model import VOCABULARY, logprobs_of, tiny
from embedded_engine import MODEL
from trainable_agents.torch_grpo import group_loss
from trainable_agents.torch_learner import Learner, LossOptions, LossSequence
from trainable_agents.torch_masks import kept_logprobs, packed
from transformers import AutoModelForCausalLM

torch.set_num_threads(1)
RECORDED = Path(__file__).parents[3] / "tests" / "goldens" / "servers" / "sampled.jsonl"


def recorded() -> list[dict[str, Any]]:
    return [json.loads(line) for line in RECORDED.read_text(encoding="utf-8").splitlines()]


class Masks(unittest.TestCase):
    def test_closed_form(self) -> None:
        # Probabilities 1/2, 1/4, 1/8, 1/8; kept are {0, 1}, {1, 2, 3}, all, and the token alone.
        logits = torch.tensor([[0.5, 0.25, 0.125, 0.125]]).log().repeat(4, 1).requires_grad_()
        offsets, ids = packed([[0, 1], [3, 1, 2], [2, 0, 3, 1], [2]])
        new = kept_logprobs(logits, torch.tensor([0, 1, 3, 2]), offsets, ids)
        wanted = [math.log(2 / 3), math.log(1 / 2), math.log(1 / 8), 0.0]
        torch.testing.assert_close(new, torch.tensor(wanted), atol=1e-6, rtol=0)
        # At temperature 1/2 probabilities are squared.
        colder = kept_logprobs(logits, torch.tensor([0, 1, 3, 2]), offsets, ids, temperature=0.5)
        wanted = [math.log(4 / 5), math.log(4 / 6), math.log(1 / 22), 0.0]
        torch.testing.assert_close(colder, torch.tensor(wanted), atol=1e-6, rtol=0)
        # d logp / d logit is 1[own] - p among the kept ids, and 0 for others.
        new.sum().backward()
        wanted_gradient = [[1 / 3, -1 / 3, 0, 0], [0, 0.5, -0.25, -0.25], [-0.5, -0.25, -0.125, 0.875], [0, 0, 0, 0]]
        torch.testing.assert_close(logits.grad, torch.tensor(wanted_gradient), atol=1e-6, rtol=0)

    def test_logits_beyond_the_range_of_exponentials(self) -> None:
        logits = torch.tensor([[3e4, 3e4 - 1, -3e4], [-2e4, -2e4, 5e4]])
        new = kept_logprobs(logits, torch.tensor([1, 0]), *packed([[0, 1], [0, 1]]))
        torch.testing.assert_close(new, torch.tensor([-1 - math.log1p(math.exp(-1)), -math.log(2)]), atol=1e-6, rtol=0)

    def test_other_kept_ids_are_refused(self) -> None:
        logits = torch.zeros(2, 4)
        for targets, lists in (([0, 1], [[0], [2, 3]]), ([0, 1], [[0]]), ([0, 1], [[0], [1], [2]]), ([0, 1], [[0], []])):
            with self.assertRaisesRegex(ValueError, "Cannot renormalize"):
                kept_logprobs(logits, torch.tensor(targets), *packed(lists))
        self.assertEqual(len(kept_logprobs(torch.zeros(0, 4), torch.zeros(0), *packed([]))), 0)

    def test_replies_of_sglang(self) -> None:
        model = AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.float32)
        checked = 0
        for record in recorded():
            if record["server"] != "sglang" or "mask" not in record["name"] or record["status"] != 200:
                continue
            reply = json.loads(record["reply"])
            meta, sampled = reply["meta_info"], reply["output_ids"]
            tokens = [*record["body"]["input_ids"], *sampled]
            with torch.inference_mode():
                logits = model(torch.tensor([tokens])).logits[0, len(tokens) - len(sampled) - 1 : -1]
            temperature = record["body"]["sampling_params"].get("temperature", 1.0) or 1.0
            lists, found = packed(meta["output_token_sampling_mask"]), meta["output_token_sampling_logprobs"]
            new = kept_logprobs(logits, torch.tensor(sampled), *lists, temperature=temperature)
            own = torch.tensor([one[0] if isinstance(one, list) else one for one in found])
            torch.testing.assert_close(new, own, atol=2e-5, rtol=0)
            # The logprobs over the whole vocabulary are others wherever something was cut off.
            whole = torch.log_softmax(logits / temperature, -1).gather(-1, torch.tensor(sampled)[:, None])[:, 0]
            self.assertGreater(float((whole - own).abs().max()), 1e-4)
            checked += len(sampled)
        self.assertEqual(checked, 16)

    def test_replies_of_vllm(self) -> None:
        # The logprobs of all kept ids are in the reply: renormalizing them must change nothing.
        [record] = [one for one in recorded() if one["name"] == "v2 plain"]
        [choice] = json.loads(record["reply"])["choices"]
        logits = torch.full((len(choice["token_ids"]), 1536), -9999.0)
        for place, one in enumerate(choice["logprobs"]["content"]):
            for top in one["top_logprobs"]:
                logits[place, top["token_id"]] = top["logprob"]
        new = kept_logprobs(logits, torch.tensor(choice["token_ids"]), *packed(choice["sampling_mask"]))
        own = torch.tensor([one["logprob"] for one in choice["logprobs"]["content"]])
        torch.testing.assert_close(new, own, atol=1e-5, rtol=0)

    def test_losses_at_the_sampled_distribution_have_ratio_one(self) -> None:
        model = tiny()
        tokens = [5, 17, 3, 8, 61, 2, 44]
        whole = logprobs_of(model, tokens)
        lists = [[token, (token + 1) % VOCABULARY, (token + 7) % VOCABULARY] for token in tokens[3:]]
        recorded_ones = [
            float(whole[2 + at, tokens[3 + at]] - torch.logsumexp(whole[2 + at, kept], 0)) for at, kept in enumerate(lists)
        ]
        row = {"tokens": tokens, "response_length": 4, "loss_mask": [1] * 4, "rollout_log_probs": recorded_ones}
        mask = (numpy.cumsum([0, 3, 3, 3, 3]), numpy.asarray(lists).reshape(-1))
        part = group_loss(model, [row], [1.0], masks=[mask])
        self.assertLess(part.drift, 1e-5)
        self.assertAlmostEqual(float(part.loss), -4.0, places=4)
        self.assertGreater(group_loss(model, [row], [1.0]).drift, 0.1)

        learner = Learner(tiny(), rank=4)
        shared = {"tokens": tokens, "targets": [3, 4, 5, 6], "weights": [0.25] * 4, "advantages": [1.0] * 4}
        kept = LossSequence(**shared, sampled_logprobs=recorded_ones, kept=lists)
        plain = LossSequence(**shared, sampled_logprobs=[float(whole[2 + at, tokens[3 + at]]) for at in range(4)])
        for sequences in ([kept], [kept, plain]):
            outcome = learner.accumulate(sequences, LossOptions(clip_low=0.2, clip_high=0.2))
            self.assertLess(abs(outcome["mismatch_kl"]), 1e-6)
            numpy.testing.assert_allclose(outcome["sequences"][0]["logprobs"], recorded_ones, atol=1e-5)
        without = learner.accumulate([LossSequence(**shared, sampled_logprobs=recorded_ones)], LossOptions(clip_low=0.2, clip_high=0.2))
        self.assertGreater(without["mismatch_kl"], 0.01)


if __name__ == "__main__":
    unittest.main()
