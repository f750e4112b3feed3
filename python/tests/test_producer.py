"""Tests of the producer from Python: batch requests repeated until the batch is ready, with prepared answers and with the real
service."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import unittest
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import httpx  # noqa: E402
from answering import answering, refusal  # noqa: E402
from rollout_service import ROOT, RolloutService  # noqa: E402
from trainable_agents.client import Client  # noqa: E402
from trainable_agents.errors import BadRequest, BatchOutOfOrder, KeyReused  # noqa: E402
from trainable_agents.wire import TakenBatch  # noqa: E402


def batch(status: str, *group_ids: str) -> dict[str, Any]:
    return {"producer_id": "p", "number": 3, "status": status, "groups": [{"id": id, "staleness": 1} for id in group_ids]}


class Asking(unittest.IsolatedAsyncioTestCase):
    async def test_a_batch_is_asked_for_until_it_is_there(self) -> None:
        client, requests = answering(
            httpx.Response(202, json=batch("waiting")),
            httpx.ReadTimeout("cut"),
            refusal(503, "closing"),
            httpx.Response(202, json=batch("waiting")),
            httpx.Response(200, json=batch("ready", "g")),
        )
        self.assertEqual(await client.batch("p", 3, 2), batch("ready", "g"))
        self.assertEqual(len(requests), 5)
        for request in requests:
            self.assertEqual((request.method, request.url.path), ("POST", "/v1/producers/p/batches/3"))
            self.assertEqual(json.loads(request.content), {"groups": 2, "wait_seconds": 30.0})

    async def test_what_has_ended_is_not_asked_for_again(self) -> None:
        client, requests = answering(httpx.Response(200, json=batch("ended")))
        self.assertEqual((await client.take("p", 3))["groups"], [])
        self.assertEqual(len(requests), 1)

    async def test_a_producer_is_started_with_what_was_given_and_one_key(self) -> None:
        client, requests = answering(httpx.ConnectError("gone"), httpx.Response(201, json={"id": "p"}))
        await client.start_producer(8, 4, key="mine", max_staleness=0, filters=["zero-signal"], split=None)
        self.assertEqual({request.headers["idempotency-key"] for request in requests}, {"mine"})
        self.assertEqual(
            json.loads(requests[-1].content),
            {"group_size": 8, "batch_groups": 4, "max_staleness": 0, "filters": ["zero-signal"]},
        )

    async def test_refusals_have_their_kinds_and_are_not_repeated(self) -> None:
        for status, code, kind in ((409, "batch-out-of-order", BatchOutOfOrder), (400, "bad-request", BadRequest)):
            client, requests = answering(refusal(status, code))
            with self.assertRaisesRegex(kind, "Why"):
                await client.batch("p", 3)
            self.assertEqual(len(requests), 1)


class Rows(unittest.IsolatedAsyncioTestCase):
    """Rows of many groups: at most `at_once` concurrent requests, in the order of the groups."""

    async def asyncSetUp(self) -> None:
        self.ids = [f"g{place}" for place in range(40)]
        self.asked: list[str] = []
        self.open = self.most = self.cancelled = 0
        self.fails: str | None = None

    async def answer(self, request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/batches/0"):
            return httpx.Response(200, json=batch("ready", *self.ids))
        id = request.url.path.split("/")[3]
        self.asked.append(id)
        self.open += 1
        self.most = max(self.most, self.open)
        try:
            # Later groups are answered earlier.
            for _ in range(200 - 5 * self.ids.index(id)):
                await asyncio.sleep(0)
            if id == self.fails:
                return refusal(400, "bad-request")
            rows = [f"{id} as {request.url.params['format']}"]
            return httpx.Response(200, json={"samples": rows, "dropped_tokens": [], "format": "x", "episodes": []})
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.open -= 1

    def client(self) -> Client:
        return Client("http://service", transport=httpx.MockTransport(self.answer))

    async def test_rows_come_at_once_and_in_the_order_of_their_groups(self) -> None:
        async with self.client() as client:
            taken = await client.take("p", 0, format="verl")
        self.assertEqual([group["rows"] for group in taken["groups"]], [[f"{id} as verl"] for id in self.ids])
        self.assertEqual([group["staleness"] for group in taken["groups"]], [1] * 40)
        self.assertEqual(self.most, 16)

    async def test_what_cannot_be_had_ends_the_others(self) -> None:
        self.fails = "g12"
        async with self.client() as client:
            with self.assertRaises(BadRequest):
                await client.take("p", 0)
            await asyncio.sleep(0)
        self.assertEqual(self.open, 0)
        self.assertGreater(self.cancelled, 0)
        self.assertLess(len(self.asked), 40)


class WithService(unittest.IsolatedAsyncioTestCase):
    """Each test uses its own version names, because every producer of the service receives them."""

    service: RolloutService

    @classmethod
    def setUpClass(cls) -> None:
        cls.service = RolloutService("--split", "train")

    @classmethod
    def tearDownClass(cls) -> None:
        cls.service.close()

    async def asyncSetUp(self) -> None:
        asyncio.get_running_loop().set_debug(False)
        self.client = Client(self.service.url)
        self.addAsyncCleanup(self.client.aclose)

    def check(self, taken: TakenBatch, *, groups: int, samples: int) -> set[str]:
        """Checks that the batch is complete: every group has its episodes, and every episode its row. Returns the ids of its
        groups."""
        self.assertEqual((taken["status"], len(taken["groups"])), ("ready", groups))
        for group in taken["groups"]:
            self.assertLessEqual(group["staleness"], 1)
            self.assertEqual((group["status"], len(group["episodes"])), ("ended", samples))
            episode_ids = {episode["id"] for episode in group["episodes"] if episode["reward"] is not None}
            self.assertEqual({row["metadata"]["episode_id"] for row in group["rows"] if row["reward"] is not None}, episode_ids)
            for row in group["rows"]:
                self.assertEqual(len(row["loss_mask"]), row["response_length"])
        return {group["id"] for group in taken["groups"]}

    async def test_batches_follow_the_trainer_and_every_group_comes_once(self) -> None:
        client = self.client
        producer = await client.start_producer(4, 3, key="followed", max_staleness=1)
        self.assertEqual((await client.start_producer(4, 3, key="followed", max_staleness=1))["id"], producer["id"])
        with self.assertRaises(KeyReused):
            await client.start_producer(4, 2, key="followed", max_staleness=1)
        with self.assertRaisesRegex(BadRequest, "batch_groups"):
            await client.start_producer(4, 0)
        seen: set[str] = set()
        batches = []
        for number in range(4):
            taken = await client.take(producer["id"], number)
            ids = self.check(taken, groups=3, samples=4)
            self.assertFalse(seen & ids)
            seen |= ids
            batches.append(taken["groups"])
            await client.report_weights(f"followed {number + 1}")
        with self.assertRaises(BatchOutOfOrder):
            await client.batch(producer["id"], 9)
        for number, groups in enumerate(batches):
            self.assertEqual((await client.take(producer["id"], number))["groups"], groups)
        state = await client.producer(producer["id"])
        self.assertEqual((state["batches"], state["handed_over"], state["version"]), (4, 12, 4))

    async def test_two_who_ask_for_the_same_batch_get_the_same(self) -> None:
        producer = await self.client.start_producer(2, 2)
        first, second = await asyncio.gather(*(self.client.batch(producer["id"], 0) for _ in range(2)))
        self.assertEqual(first["groups"], second["groups"])
        self.assertEqual((await self.client.producer(producer["id"]))["batches"], 1)

    async def test_a_killed_service_gives_the_same_batches_and_goes_on(self) -> None:
        client = self.client
        producer_id = (await client.start_producer(4, 3, key="killed"))["id"]
        before = []
        for number in range(2):
            before.append((await client.take(producer_id, number))["groups"])
            await client.report_weights(f"killed {number + 1}")
        asking = asyncio.create_task(client.take(producer_id, 2))
        self.service.kill()
        await asyncio.sleep(0.2)
        self.service.start()
        self.assertEqual((await client.start_producer(4, 3, key="killed"))["id"], producer_id)
        ids = self.check(await asking, groups=3, samples=4)
        for number, groups in enumerate(before):
            self.assertEqual((await client.take(producer_id, number))["groups"], groups)
            self.assertFalse(ids & {group["id"] for group in groups})

    async def test_a_producer_is_paused_drained_and_cancelled(self) -> None:
        client = self.client
        producer_id = (await client.start_producer(2, 2))["id"]
        self.assertEqual((await client.pause_producer(producer_id))["state"], "paused")
        self.assertEqual((await client.continue_producer(producer_id))["state"], "running")
        await client.batch(producer_id, 0)
        self.assertIn((await client.drain_producer(producer_id))["state"], ("draining", "ended"))
        number = 1
        while (await client.batch(producer_id, number))["status"] != "ended":
            number += 1
        self.assertEqual((await client.producer(producer_id))["state"], "ended")
        other = (await client.start_producer(2, 2))["id"]
        first = await client.batch(other, 0)
        self.assertEqual((await client.cancel_producer(other))["state"], "cancelled")
        last = await client.take(other, 1)
        self.assertEqual((last["status"], last["groups"]), ("ended", []))
        self.assertEqual((await client.batch(other, 0))["groups"], first["groups"])


class Example(unittest.TestCase):
    def test_the_trainer_goes_on_after_it_and_the_service_were_killed(self) -> None:
        service = RolloutService("--split", "train")
        self.addCleanup(service.close)
        command = [sys.executable, "-u", str(ROOT / "examples" / "asynchronous-trainer.py"), "--url", service.url]
        command += ["--training", "mine"]
        before: list[str] = []
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as trainer:
            assert trainer.stdout is not None
            for line in trainer.stdout:
                before.append(line.strip())
                if line.startswith("step 2"):
                    break
            trainer.kill()
        service.kill()
        service.start()
        done = subprocess.run([*command, "--step", "2"], capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        after = done.stdout.splitlines()
        self.assertEqual([line.split()[1] for line in before], ["0"] * 4 + ["1"] * 4 + ["2"])
        self.assertEqual([line.split()[1] for line in after], ["2"] * 4 + ["3"] * 4)
        self.assertEqual(after[0], before[-1])
        groups = [line.split()[3] for line in before[:-1] + after]
        self.assertEqual(len(set(groups)), 16)

    def test_the_page_shows_the_trainer(self) -> None:
        page = (ROOT / "docs" / "scale.md").read_text(encoding="utf-8")
        trainer = (ROOT / "examples" / "asynchronous-trainer.py").read_text(encoding="utf-8")
        self.assertIn(f"```python file=examples/asynchronous-trainer.py\n{trainer}```", page)


if __name__ == "__main__":
    unittest.main()
