"""Tests of the client, the command that prepares data, the example trainer, and the script and the page that show them."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import httpx  # noqa: E402
from answering import answering, refusal  # noqa: E402
from rollout_service import ROOT, RolloutService  # noqa: E402
from trainable_agents.client import Client  # noqa: E402
from trainable_agents.errors import (  # noqa: E402
    BadRequest,
    ConfigurationError,
    KeyReused,
    NotEnded,
    NotFound,
    ServiceUnreachable,
)


class Repeats(unittest.IsolatedAsyncioTestCase):
    async def test_what_was_lost_or_refused_for_now_is_sent_again_with_the_same_key(self) -> None:
        for first in (httpx.ConnectError("gone"), httpx.ReadError("cut"), refusal(429, "too-many"), refusal(503, "closing")):
            client, requests = answering(first, httpx.Response(202, json={"id": "e"}))
            self.assertEqual(await client.start_episode(3), {"id": "e"})
            keys = [request.headers["idempotency-key"] for request in requests]
            self.assertEqual(len(keys), 2)
            self.assertEqual(keys[0], keys[1])
            self.assertEqual(requests[0].content, requests[1].content)

    async def test_the_service_says_when_to_ask_again(self) -> None:
        client, requests = answering(refusal(429, "too-many", **{"retry-after": "1"}), httpx.Response(200, json={}))
        began = asyncio.get_running_loop().time()
        await client.info()
        self.assertGreaterEqual(asyncio.get_running_loop().time() - began, 1.0)

    async def test_patience_ends(self) -> None:
        client, requests = answering(httpx.ConnectError("gone"))
        with self.assertRaisesRegex(ServiceUnreachable, "for 2 s .*gone.*trainable-agents serve"):
            await client.info()
        self.assertGreater(len(requests), 2)

    async def test_that_nothing_listens_is_said_within_two_seconds(self) -> None:
        async with Client("http://127.0.0.1:9") as client:
            began = asyncio.get_running_loop().time()
            with self.assertRaisesRegex(ServiceUnreachable, r"127\.0\.0\.1:9: nothing listens there .*trainable-agents serve"):
                await client.start_group(3, 8)
            self.assertLess(asyncio.get_running_loop().time() - began, 2.0)

    async def test_who_is_patient_is_told_within_two_seconds_and_waits(self) -> None:
        client, requests = answering(*[httpx.ConnectError("gone")] * 5, httpx.Response(200, json={}), patience=60.0)
        began = asyncio.get_running_loop().time()
        with self.assertLogs("trainable_agents.connection", "WARNING") as logs:
            asking = asyncio.ensure_future(client.info())
            while not logs.records:
                await asyncio.sleep(0.05)
            self.assertLess(asyncio.get_running_loop().time() - began, 2.0)
            self.assertEqual(await asking, {})
        self.assertEqual(len(logs.records), 1)
        self.assertIn("http://service does not answer (ConnectError: gone)", logs.records[0].getMessage())
        self.assertEqual(len(requests), 6)

    async def test_a_service_that_answered_once_is_waited_for(self) -> None:
        gone = httpx.ConnectError("gone")
        client, _ = answering(httpx.Response(200, json={}), *[gone] * 6, httpx.Response(200, json={"a": 1}), patience=None)
        await client.info()
        with self.assertLogs("trainable_agents.connection", "WARNING"):
            self.assertEqual(await client.info(), {"a": 1})

    async def test_what_will_not_change_is_asked_once(self) -> None:
        for status, code, kind in (
            (400, "bad-request", BadRequest),
            (404, "not-found", NotFound),
            (409, "key-reused", KeyReused),
            (409, "not-ended", NotEnded),
        ):
            client, requests = answering(refusal(status, code))
            with self.assertRaisesRegex(kind, "Why"):
                await client.info()
            self.assertEqual(len(requests), 1)

    async def test_another_server_is_recognised(self) -> None:
        client, _ = answering(httpx.Response(200, text="<html>"))
        with self.assertRaisesRegex(ConfigurationError, "not JSON"):
            await client.info()
        with self.assertRaisesRegex(ConfigurationError, "http://"):
            Client("service:8800")


class WithService(unittest.IsolatedAsyncioTestCase):
    service: RolloutService

    @classmethod
    def setUpClass(cls) -> None:
        cls.service = RolloutService()

    @classmethod
    def tearDownClass(cls) -> None:
        cls.service.close()

    async def test_a_key_is_one_group_and_another_body_is_refused(self) -> None:
        asyncio.get_running_loop().set_debug(False)
        async with Client(self.service.url) as client:
            group = await client.start_group(2, 3, key="mine")
            self.assertEqual((await client.start_group(2, 3, key="mine"))["id"], group["id"])
            with self.assertRaises(KeyReused):
                await client.start_group(3, 3, key="mine")
            ended = await client.ended_group(group["id"])
            self.assertEqual([episode["sample_index"] for episode in ended["episodes"]], [0, 1, 2])
            await client.report_weights(7)
            self.assertEqual((await client.info())["weight_version"], "7")

    def test_data_is_prepared_as_slime_reads_it(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "new" / "tasks.jsonl"
            done = self.python(
                "-m", "trainable_agents.prepare", "--url", self.service.url, "--split", "test", "--output", str(path)
            )
            self.assertEqual(done.returncode, 0, done.stderr)
            rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
            self.assertEqual([row["index"] for row in rows], list(range(len(rows))))
            self.assertGreater(len(rows), 1)
            self.assertEqual({row["metadata"]["split"] for row in rows}, {"test"})
            for flags, words in (
                (("--url", self.service.url, "--split", "nowhere"), "train"),
                (("--url", "http://127.0.0.1:9"), "trainable-agents serve"),
                (("--url", "nonsense"), "--url"),
            ):
                done = self.python("-m", "trainable_agents.prepare", *flags, "--output", str(path))
                self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 1), done.stderr)
                self.assertIn(words, done.stderr)

    def test_your_own_trainer_trains(self) -> None:
        done = self.python(str(ROOT / "examples" / "your-own-trainer.py"), self.service.url)
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = done.stdout.splitlines()
        self.assertEqual(len(lines), 3 * 4 * 8)
        advantages = [float(line.split()[-1]) for line in lines]
        self.assertTrue(any(advantages))
        for start in range(0, len(lines), 8):
            self.assertAlmostEqual(sum(advantages[start : start + 8]), 0.0, delta=0.05)

    def python(self, *parameters: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, *parameters], capture_output=True, text=True, timeout=120, check=False)


class Shown(unittest.TestCase):
    def test_the_script_is_bash(self) -> None:
        script = ROOT / "examples" / "slime-tau-bench" / "run-qwen3-4b.sh"
        subprocess.run(["bash", "-n", str(script)], check=True)
        text = script.read_text(encoding="utf-8")
        self.assertIn("--custom-generate-function-path trainable_agents.slime.generate", text)
        self.assertIn("npx trainable-agents serve", text)

    def test_the_page_shows_the_trainer(self) -> None:
        page = (ROOT / "docs" / "trainers.md").read_text(encoding="utf-8")
        trainer = (ROOT / "examples" / "your-own-trainer.py").read_text(encoding="utf-8")
        self.assertIn(f"```python file=examples/your-own-trainer.py\n{trainer}```", page)


if __name__ == "__main__":
    unittest.main()
