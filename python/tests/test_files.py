"""Tests that data tools read the same rows from both kinds of files, with lists of the right number types."""

from __future__ import annotations

import tempfile
import unittest

import datasets
import duckdb
import pandas
import pyarrow
import pyarrow.parquet
from exported import FORMATS, KINDS, path, rows, samples

TOKEN_COLUMNS = {
    "slime": ("tokens", "loss_mask", "rollout_log_probs"),
    "verl": ("prompt_ids", "response_mask", "response_logprobs"),
    "trl": ("completion_ids", "env_mask", "logprobs"),
    "tinker": ("model_input", "target_tokens", "advantages"),
    "sft-tokens": ("input_ids", "labels", None),
}


def single(value: float) -> float:
    """Lists of logprobs have 32-bit floats, a type that JSON lacks."""
    return float(pandas.Series([value], dtype="float32").iloc[0])


class Files(unittest.TestCase):
    def test_both_kinds_hold_the_same(self) -> None:
        for name in FORMATS:
            with self.subTest(name):
                lines, table = rows(name, "jsonl"), rows(name, "parquet")
                self.assertEqual(len(lines), len(table))
                self.assertGreater(len(lines), 0)
                self.assertEqual(rounded(lines), rounded(table))

    def test_parquet_has_lists_of_32_bits(self) -> None:
        for name, (ids, mask, floats) in TOKEN_COLUMNS.items():
            schema = pyarrow.parquet.read_schema(path(name, "parquet"))
            for column, kind in ((ids, pyarrow.int32()), (mask, pyarrow.int32()), (floats, pyarrow.float32())):
                if column is None:
                    continue
                with self.subTest(name=name, column=column):
                    self.assertTrue(pyarrow.types.is_list(schema.field(column).type))
                    self.assertEqual(schema.field(column).type.value_type, kind)

    def test_pandas_reads_both(self) -> None:
        for name in FORMATS:
            for kind in KINDS:
                with self.subTest(name=name, kind=kind):
                    file = path(name, kind)
                    frame = pandas.read_parquet(file) if kind == "parquet" else pandas.read_json(file, lines=True)
                    self.assertEqual(list(frame.columns), list(rows(name)[0]))
                    self.assertEqual(len(frame), len(rows(name)))
        frame = pandas.read_parquet(path("verl", "parquet"))
        self.assertEqual([list(ids) for ids in frame["response_ids"]], [row["response_ids"] for row in rows("verl")])

    def test_hugging_face_datasets_read_both(self) -> None:
        with tempfile.TemporaryDirectory() as cache:
            for name in FORMATS:
                for kind, loader in (("jsonl", "json"), ("parquet", "parquet")):
                    with self.subTest(name=name, kind=kind):
                        data = datasets.load_dataset(loader, data_files=path(name, kind), split="train", cache_dir=cache)
                        self.assertEqual(data.num_rows, len(rows(name)))
            data = datasets.load_dataset("parquet", data_files=path("sft", "parquet"), split="train", cache_dir=cache)
            wanted = rows("sft")
            self.assertEqual(data[0]["messages"], wanted[0]["messages"])
            tokens = datasets.load_dataset("parquet", data_files=path("trl", "parquet"), split="train", cache_dir=cache)
            self.assertEqual(tokens["completion_ids"][3], rows("trl")[3]["completion_ids"])

    def test_duckdb_reads_both(self) -> None:
        for name in FORMATS:
            for kind, reader in (("jsonl", "read_json"), ("parquet", "read_parquet")):
                with self.subTest(name=name, kind=kind):
                    [(count,)] = duckdb.sql(f"select count(*) from {reader}('{path(name, kind)}')").fetchall()
                    self.assertEqual(count, len(rows(name)))
        trained = sum(sum(sample["loss_mask"]) for sample in samples())
        query = "select sum(list_sum(loss_mask)), count(distinct group_index) from read_parquet('{}')"
        [(ones, groups)] = duckdb.sql(query.format(path("slime", "parquet"))).fetchall()
        self.assertEqual((int(ones), groups), (trained, 8))
        [(first,)] = duckdb.sql(
            f"select metadata->>'group_id' from read_parquet('{path('trl', 'parquet')}') limit 1"
        ).fetchall()
        self.assertEqual(first, "desk:train:0")


def rounded(value: object) -> object:
    if isinstance(value, float):
        return single(value)
    if isinstance(value, list):
        return [rounded(inner) for inner in value]
    if isinstance(value, dict):
        return {key: rounded(inner) for key, inner in value.items()}
    return value


if __name__ == "__main__":
    unittest.main()
