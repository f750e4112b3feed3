"""The producer from Python: batches that are asked for until they are there, against answers in turn and the real service."""

from __future__ import annotations

import asyncio
import json
import sys
import unittest
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import httpx  # noqa: E402
from answering import answering, refusal  # noqa: E402
from trainable_agents.client import Client  # noqa: E402
from trainable_agents.errors import BadRequest, BatchOutOfOrder  # noqa: E402


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
            {"samples": 8, "batch_groups": 4, "max_staleness": 0, "filters": ["zero-signal"]},
        )

    async def test_refusals_have_their_kinds_and_are_not_repeated(self) -> None:
        for status, code, kind in ((409, "batch-out-of-order", BatchOutOfOrder), (400, "bad-request", BadRequest)):
            client, requests = answering(refusal(status, code))
            with self.assertRaisesRegex(kind, "Why"):
                await client.batch("p", 3)
            self.assertEqual(len(requests), 1)


class Rows(unittest.IsolatedAsyncioTestCase):
    """Of many groups: `at_once` requests at most, in the order of the groups."""

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
            # The later a group comes, the earlier it is answered.
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


if __name__ == "__main__":
    unittest.main()
