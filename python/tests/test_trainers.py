"""Tests that the trainers' own libraries accept our rows: their classes, their server and, if importing a library requires an
accelerator stack, classes and checks taken from its source."""

from __future__ import annotations

import ast
import base64
import importlib.util
import json
import sys
import unittest
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, Optional

import numpy
import pydantic
from exported import KINDS, path, rows, samples
from trainable_agents.formats import routed_experts, sampling_mask, tinker_datum, trl_reward, trl_rollout, verl_token_scores


def source_of(module: str) -> str:
    """The source of a module that cannot be imported here."""
    package, _, rest = module.partition(".")
    spec = importlib.util.find_spec(package)
    assert spec is not None and spec.submodule_search_locations is not None
    return (Path(spec.submodule_search_locations[0]) / f"{rest.replace('.', '/')}.py").read_text(encoding="utf-8")


def close(found: Any, wanted: Any) -> None:
    numpy.testing.assert_array_equal(numpy.asarray(found, dtype=numpy.float32), numpy.asarray(wanted, dtype=numpy.float32))


class Verl(unittest.TestCase):
    """`AgentLoopOutput`, taken from verl's source; importing the module would need torch, ray and tensordict."""

    def setUp(self) -> None:
        tree = ast.parse(source_of("verl.experimental.agent_loop.agent_loop"))
        wanted = ("AgentLoopMetrics", "AgentLoopOutput")
        classes = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name in wanted]
        self.assertEqual([node.name for node in classes], list(wanted))
        torch = SimpleNamespace(
            tensor=lambda value, dtype: numpy.asarray(value, dtype=dtype),
            zeros_like=lambda value, dtype: numpy.zeros_like(value, dtype=dtype),
            int64=numpy.int64,
            float32=numpy.float32,
            int16=numpy.int16,
        )
        # Annotations are resolved in the module of a class, so there must be one.
        module = ModuleType("agent_loop_classes")
        sys.modules[module.__name__] = module
        module.__dict__.update(torch=torch, Any=Any, Optional=Optional, BaseModel=pydantic.BaseModel)
        exec(compile(ast.Module(classes, []), "agent_loop.py", "exec"), module.__dict__)
        self.output = module.__dict__["AgentLoopOutput"]

    def test_takes_rows(self) -> None:
        for kind in KINDS:
            for row, sample in zip(rows("verl", kind), samples(), strict=True):
                fields = self.output.model_fields
                self.assertLessEqual(row.keys(), fields.keys())
                output = self.output(**row)
                tensors = output.as_dict()
                start = len(tensors["prompts"])
                self.assertEqual([*tensors["prompts"], *tensors["responses"]], sample["tokens"])
                self.assertEqual([0] * start + list(tensors["response_mask"]), sample["loss_mask"])
                close(tensors["rollout_log_probs"], sample["logprobs"][start:])
                self.assertEqual(tensors["rm_scores"].sum(), numpy.float32(sample["reward"]))
                self.assertEqual(output.extra_fields["weight"], sample["weight"])
                self.assertEqual(tensors["extra_fields"]["min_global_steps"], 3)
                self.assertIn(tensors["extra_fields"]["max_global_steps"], (3, 4))
                self.assertGreater(output.metrics.generate_sequences, 0)
                scores = verl_token_scores(row)
                self.assertEqual(len(scores), len(tensors["responses"]))
                expected = [0.0] * len(sample["tokens"])
                for turn in sample["turns"]:
                    expected[turn["end"] - 1] = turn["reward"] or 0.0
                self.assertEqual([0.0] * start + scores, expected)
                self.assertEqual(output.extra_fields["turn_scores"], [turn["reward"] or 0.0 for turn in sample["turns"]])
                if row["extra_fields"]["weight"] == 1:
                    self.assertAlmostEqual(sum(scores), row["reward_score"])


class RoutedExperts(unittest.TestCase):
    """The checks of slime (`validate_rollout_routed_experts_for_replay`, and rows of all tokens but the last), and verl's
    field."""

    def test_are_arrays_of_all_tokens_but_the_last(self) -> None:
        for format in ("slime", "verl"):
            for kind in KINDS:
                for row, sample in zip(rows(format, kind), samples(), strict=True):
                    experts = routed_experts(row, path(format, kind))
                    self.assertEqual((experts.dtype, experts.shape), (numpy.int32, (len(sample["tokens"]) - 1, 3, 2)))
                    self.assertEqual(experts.reshape(-1).tolist(), sample["experts"])
        self.assertIsNone(routed_experts({"metadata": {}}, path("slime", "jsonl")))


class SamplingMask(unittest.TestCase):
    """Offsets and ids as slime's `RolloutSamplingMask` has them: one non-empty list for each token of the response."""

    def test_are_the_kept_ids_of_the_sampled_tokens(self) -> None:
        for format in ("slime", "verl"):
            for kind in KINDS:
                for row, sample in zip(rows(format, kind), samples(), strict=True):
                    offsets, ids = sampling_mask(row, path(format, kind))
                    self.assertEqual((offsets.dtype, ids.dtype), (numpy.int64, numpy.int32))
                    start = sample["sampled_mask"].index(1)
                    self.assertEqual(len(offsets), len(sample["tokens"]) - start + 1)
                    lists = [ids[offsets[at] : offsets[at + 1]].tolist() for at in range(len(offsets) - 1)]
                    self.assertEqual([one for one, sampled in zip(lists, sample["sampled_mask"][start:]) if sampled], sample["kept"])
                    others = [one for one, sampled in zip(lists, sample["sampled_mask"][start:]) if not sampled]
                    alone = [[token] for token, sampled in zip(sample["tokens"][start:], sample["sampled_mask"][start:]) if not sampled]
                    self.assertEqual(others, alone)
        self.assertIsNone(sampling_mask({"metadata": {}}, path("slime", "jsonl")))

    def test_are_in_a_row_that_came_over_http(self) -> None:
        for format in ("slime", "verl"):
            for row in rows(format):
                facts = row.get("metadata") or row["extra_fields"]
                place = facts["sampling_mask"]
                data = (Path(path(format, "jsonl")).parent / place["file"]).read_bytes()[place["offset"] :]
                size = 4 * (place["tokens"] + place["ids"])
                sent = {"tokens": place["tokens"], "ids": place["ids"], "base64": base64.b64encode(data[:size]).decode()}
                name = "metadata" if "metadata" in row else "extra_fields"
                other = {**row, name: {**facts, "sampling_mask": sent}}
                for found, wanted in zip(sampling_mask(other), sampling_mask(row, path(format, "jsonl")), strict=True):
                    numpy.testing.assert_array_equal(found, wanted)
                with self.assertRaisesRegex(ValueError, "Cannot read the bytes of a row"):
                    sampling_mask({**row, name: {**facts, "sampling_mask": {**sent, "ids": place["ids"] + 1}}})
                with self.assertRaisesRegex(ValueError, "pass the path of the file"):
                    sampling_mask(row)

    def test_refuses_a_file_of_other_rows(self) -> None:
        row = rows("slime")[1]
        place = row["metadata"]["sampling_mask"]
        for changed in ({"offset": 0}, {"offset": 10**9}, {"tokens": place["tokens"] - 1}, {"ids": place["ids"] - 1}):
            other = {**row, "metadata": {**row["metadata"], "sampling_mask": {**place, **changed}}}
            with self.assertRaisesRegex(ValueError, "Cannot read the kept ids"):
                sampling_mask(other, path("slime", "jsonl"))


class Atropos(unittest.TestCase):
    """The server's own application: a trainer registers, groups arrive, a batch is taken."""

    def test_server_takes_groups_and_hands_them_on(self) -> None:
        from atroposlib.api.server import app
        from fastapi.testclient import TestClient

        client = TestClient(app)
        groups = rows("atropos")
        # A batch is made of groups whose sizes are powers of two; branches make others, which it cannot place.
        size = 8
        registration = {
            "wandb_group": "g",
            "wandb_project": "p",
            "batch_size": size,
            "max_token_len": 4096,
            "checkpoint_dir": "",
            "save_checkpoint_interval": 0,
            "starting_step": 0,
            "num_steps": 1,
        }
        self.assertEqual(client.post("/register", json=registration).status_code, 200)
        by_tokens = {tuple(sample["tokens"]): sample for sample in samples()}
        seen = 0
        for group in groups:
            answer = client.post("/scored_data", json=group)
            self.assertEqual((answer.status_code, answer.json()), (200, {"status": "received"}))
            latest = client.get("/latest_example").json()
            for at, tokens in enumerate(latest["tokens"]):
                sample = by_tokens[tuple(tokens)]
                trained = sample["loss_mask"]
                labels = [token if one else -100 for token, one in zip(tokens, trained, strict=True)]
                logprobs = [value if one else 1.0 for value, one in zip(sample["logprobs"], trained, strict=True)]
                self.assertEqual(latest["masks"][at], labels)
                close(latest["inference_logprobs"][at], logprobs)
                self.assertEqual(latest["scores"][at], sample["reward"])
                seen += 1
        self.assertEqual(seen, len(by_tokens))
        app.state.queue = []
        whole = [group for group in groups if len(group["tokens"]) == size]
        self.assertGreater(len(whole), 0)
        for group in whole:
            client.post("/scored_data", json=group)
        taken = [client.get("/batch").json()["batch"] for _ in whole]
        self.assertCountEqual([group["tokens"] for [group] in taken], [group["tokens"] for group in whole])

    def test_parquet_holds_the_same_groups(self) -> None:
        from atroposlib.api.server import ScoredData

        for line, row in zip(rows("atropos", "jsonl"), rows("atropos", "parquet"), strict=True):
            self.assertEqual(ScoredData(**row).tokens, ScoredData(**line).tokens)
            self.assertEqual(ScoredData(**row).overrides, ScoredData(**line).overrides)


class Verifiers(unittest.TestCase):
    """`WireEpisode`, as prime-rl reads it: a branch is a sample, a shared action is trained in the first."""

    def test_reads_traces(self) -> None:
        from verifiers.v1.episode import WireEpisode

        for kind in KINDS:
            trained: list[tuple[Any, ...]] = []
            for row in rows("verifiers", kind):
                episode = WireEpisode.model_validate(row)
                [trace] = episode.traces
                self.assertTrue(episode.ok and trace.is_completed and not trace.is_truncated)
                claimed: set[int] = set()
                for branch in trace.branches:
                    mask: list[int] = []
                    for node in branch.nodes:
                        mask += [int(one and id(node) not in claimed) for one in node.mask]
                        if any(node.mask):
                            claimed.add(id(node))
                    logprobs = [value if one else 0.0 for value, one in zip(branch.logprobs, mask, strict=True)]
                    trained.append((branch.token_ids, mask, logprobs, trace.reward, episode.group.id))
                self.assertEqual(trace.num_turns, sum(1 for node in trace.nodes if node.sampled))
                # One per sampled node: the reward earned so far, and the total after the last.
                scores = trace.info["turn_rewards"]
                self.assertEqual(len(scores), trace.num_turns)
                self.assertAlmostEqual(scores[-1], trace.reward)
                self.assertEqual(scores[:-1], [0.25 * at for at in range(len(scores) - 1)])
                again = WireEpisode.model_validate(json.loads(json.dumps(episode.to_record(float_decimals=None))))
                self.assertEqual(again.traces[0].branches[0].token_ids, trace.branches[0].token_ids)
            self.assertEqual(len(trained), len(samples()))
            for (tokens, mask, logprobs, reward, group), sample in zip(trained, samples(), strict=True):
                self.assertEqual((tokens, mask, reward), (sample["tokens"], sample["loss_mask"], sample["reward"]))
                self.assertEqual(group, f"desk:train:{sample['group_index']}")
                kept = [value if one else 0.0 for value, one in zip(sample["logprobs"], mask, strict=True)]
                close(logprobs, kept)


class Tinker(unittest.TestCase):
    def test_datum_takes_rows(self) -> None:
        all_samples = samples()
        for kind in KINDS:
            for row, sample in zip(rows("tinker", kind), all_samples, strict=True):
                datum = tinker_datum(row)
                inputs = datum.loss_fn_inputs
                tokens = sample["tokens"]
                self.assertEqual(datum.model_input.to_ints(), tokens[:-1])
                self.assertEqual(inputs["target_tokens"].tolist(), tokens[1:])
                self.assertEqual(inputs["target_tokens"].dtype, "int64")
                close(inputs["logprobs"].tolist(), sample["logprobs"][1:])
                # Four episodes per group, with rewards 0, 1/4, 1/2, 3/4.
                advantage = sample["reward"] - 0.375
                close(inputs["advantages"].tolist(), [advantage * one for one in sample["loss_mask"][1:]])
                self.assertEqual([int(one) for one in row["mask"]], sample["loss_mask"][1:])


class Trl(unittest.TestCase):
    """Its trainers require torch, so their requirements on rows are read from their source; their data tools do not require
    it."""

    def test_rollout_has_what_grpo_asks_for(self) -> None:
        source = source_of("trl.trainer.grpo_trainer")
        [required] = [
            ast.literal_eval(node.value)
            for node in ast.walk(ast.parse(source))
            if isinstance(node, ast.Assign)
            and any(isinstance(target, ast.Name) and target.id == "required_keys" for target in node.targets)
        ]
        self.assertIn('extra_fields.pop("env_mask"', source)
        for kind in KINDS:
            rollout = trl_rollout(rows("trl", kind))
            self.assertLessEqual(required, rollout.keys())
            for at, sample in enumerate(samples()):
                before = len(rollout["prompt_ids"][at])
                self.assertEqual(rollout["prompt_ids"][at] + rollout["completion_ids"][at], sample["tokens"])
                self.assertEqual([0] * before + rollout["env_mask"][at], sample["loss_mask"])
                close(rollout["logprobs"][at], sample["logprobs"][before:])
            rewards = trl_reward([None] * len(samples()), **{"reward": rollout["reward"], "group_id": rollout["group_id"]})
            self.assertEqual(rewards, [sample["reward"] for sample in samples()])

    def test_data_tools_know_conversations_and_pairs(self) -> None:
        from trl.data_utils import extract_prompt, is_conversational

        for kind in KINDS:
            for row in rows("sft", kind):
                self.assertTrue(is_conversational({"messages": row["messages"]}))
                json.loads(row["tools"])
            for row in rows("preferences", kind):
                pair = {name: row[name] for name in ("prompt", "chosen", "rejected")}
                self.assertTrue(is_conversational(pair))
                whole = {"chosen": row["prompt"] + row["chosen"], "rejected": row["prompt"] + row["rejected"]}
                self.assertEqual(extract_prompt(whole)["prompt"][: len(row["prompt"])], row["prompt"])
                self.assertGreater(row["score_chosen"], row["score_rejected"])

    def test_labels_leave_out_what_is_not_trained(self) -> None:
        self.assertIn("labels", source_of("trl.trainer.sft_trainer"))
        for kind in KINDS:
            for row, sample in zip(rows("sft-tokens", kind), samples(), strict=True):
                self.assertEqual(row["input_ids"], sample["tokens"])
                labels = [token if one else -100 for token, one in zip(sample["tokens"], sample["loss_mask"], strict=True)]
                self.assertEqual(row["labels"], labels)


if __name__ == "__main__":
    unittest.main()
