"""Rows against their digests: those of every trainer's format pass, and any change of one is found and named."""

from __future__ import annotations

import copy
import hashlib
import struct
import unittest
from types import SimpleNamespace
from typing import Any

from exported import KINDS, rows
from trainable_agents.errors import RowChanged
from trainable_agents.ledger import check_row, check_rows, check_slime_sample

FIELDS = {
    "slime": ("tokens", "rollout_log_probs", "metadata"),
    "verl": ("response_ids", "response_logprobs", "extra_fields"),
    "tinker": ("target_tokens", "logprobs", "metadata"),
    "trl": ("completion_ids", "logprobs", "metadata"),
}


def next_float(value: float) -> float:
    """The neighbour of a 32-bit float."""
    (bits,) = struct.unpack("<I", struct.pack("<f", value))
    (after,) = struct.unpack("<f", struct.pack("<I", bits + 1))
    return float(after)


class Ledger(unittest.TestCase):
    def refused(self, row: dict[str, Any], words: str) -> None:
        with self.assertRaisesRegex(RowChanged, words):
            check_row(row)

    def test_unchanged_rows_pass(self) -> None:
        for name in FIELDS:
            for kind in KINDS:
                with self.subTest(name=name, kind=kind):
                    self.assertGreater(check_rows(rows(name, kind)), 8)

    def test_a_change_is_found(self) -> None:
        for name, (ids, logprobs, facts) in FIELDS.items():
            for row in rows(name)[:6]:
                with self.subTest(name=name, row=row[facts]["episode_id"]):
                    for place in (0, len(row[ids]) - 1):
                        other = copy.deepcopy(row)
                        other[ids][place] += 1
                        self.refused(other, "different tokens|are not those that were sampled")
                    other = copy.deepcopy(row)
                    place = next(at for at, one in enumerate(row[logprobs]) if one != 0.0)
                    other[logprobs][place] = next_float(row[logprobs][place])
                    self.refused(other, "are not those that were sampled")
                    for change in (
                        {"request_ids": ["another"]},
                        {"weights": [[1, "x", None]]},
                        {"digest": "0" * 64},
                        {"end": 10**9},
                    ):
                        other = copy.deepcopy(row)
                        other[facts]["turn_digests"][-1].update(change)
                        self.refused(other, "turn")

    def test_what_was_not_sampled_is_not_trained(self) -> None:
        row = next(row for row in rows("slime") if len(row["metadata"]["turn_digests"]) > 1)
        first, second = row["metadata"]["turn_digests"][:2]
        row["loss_mask"][first["end"] - (len(row["tokens"]) - row["response_length"])] = 1
        self.refused(row, f"turn {second['turn']}, token {first['end']}: it is in the loss")

    def test_rows_without_proof_are_refused(self) -> None:
        (row, *_) = rows("trl")
        del row["metadata"]["turn_digests"]
        self.refused(row, "no turn_digests")
        self.refused(rows("sft")[0], "no row of slime")
        (row, *_) = rows("verl")
        row["response_mask"].pop()
        self.refused(row, "not aligned")
        (row, *_) = rows("slime")
        row["metadata"]["turn_digests"].pop()
        self.refused(row, "follow its last turn|no turn_digests")
        (row, *_) = rows("slime")
        row["tokens"][-1] = -1
        self.refused(row, "no token id")

    def test_malformed_rows_are_refused(self) -> None:
        (row, *_) = rows("slime")
        for change in (
            {"rollout_log_probs": [None] * row["response_length"]},
            {"rollout_log_probs": ["x"] * row["response_length"]},
            {"loss_mask": None},
            {"tokens": 5},
            {"tokens": [None] * len(row["tokens"])},
            {"tokens": [one + 0.5 for one in row["tokens"]]},
            {"metadata": "x"},
            {"metadata": {"turn_digests": 5}},
            {"metadata": {"turn_digests": ["x"]}},
            {"metadata": {"turn_digests": [{"turn": 0}]}},
            {"metadata": {"turn_digests": [{"turn": 0, "start": "a", "end": None}]}},
        ):
            with self.subTest(change=change):
                self.refused({**row, **change}, "discard the row|no turn_digests")
        del row["rollout_log_probs"]
        self.refused(row, "discard the row")

    def test_the_sign_of_zero_is_not_covered(self) -> None:
        def digest(zero: float) -> str:
            head = b'[null,"e",0,null,[],[[1,null,null]],[1,1,1]]\n'
            return hashlib.sha256(head + struct.pack("<IIf", 7, 8, zero)).hexdigest()

        entry = {"turn": 0, "start": 1, "end": 2, "previous": None, "request_ids": [], "weights": [[1, None, None]]}
        row = {"tokens": [7, 8], "loss_mask": [1], "rollout_log_probs": [0.0]}
        for zero in (0.0, -0.0):
            row["rollout_log_probs"] = [zero]
            row["metadata"] = {"episode_id": "e", "branch": 0, "turn_digests": [{**entry, "digest": digest(0.0)}]}
            check_row(row)
        row["metadata"]["turn_digests"][0]["digest"] = digest(-1.0)
        self.refused(row, "are not those that were sampled")

    def test_samples_of_slime(self) -> None:
        (row, *_) = rows("slime")
        names = ("tokens", "loss_mask", "rollout_log_probs", "metadata")
        sample = SimpleNamespace(**{name: row[name] for name in names})
        check_slime_sample(sample)
        sample.tokens = [*sample.tokens[:-1], 0]
        with self.assertRaises(RowChanged):
            check_slime_sample(sample)


if __name__ == "__main__":
    unittest.main()
