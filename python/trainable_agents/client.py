"""The rollout service from Python, asynchronously. Not tied to a trainer.

A request that is lost on the way, or refused because the service is busy or restarting, is sent again until the client's
patience ends. What starts an episode carries an idempotency key, so that sending it again never starts a second one.
"""

from __future__ import annotations

import asyncio
import logging
import os
import uuid
from collections.abc import Coroutine, Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar, cast

import httpx

from .connection import WAIT_SECONDS, Connection
from .ledger import check_rows
from .wire import Batch, BatchGroup, Episode, Group, Info, Producer, Samples, TakenBatch, TakenGroup

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .wire import ProducerOptions

_MOST_ROWS_AT_ONCE = 16
"""Requests for rows: a group has megabytes of them, and the service writes one after the other anyway."""

_T = TypeVar("_T")

_logger = logging.getLogger(__name__)


class Client:
    """One service. Open it with `async with`, or close it with `aclose`; it belongs to the event loop that uses it first.

    `url` and `token` default to the environment variables TRAINABLE_AGENTS_URL and TRAINABLE_AGENTS_TOKEN. `patience` is how
    many seconds a request is repeated for before `ServiceUnreachable` is raised. Default: 600 once the service has answered, and
    less than 2 where nothing listens at the address. A wait of more than 2 seconds is a warning of the logger
    "trainable_agents.connection". `verify`: rows of slime, verl, tinker and TRL are checked against their digests, and
    `RowChanged` is raised for one that was changed (default: TRAINABLE_AGENTS_VERIFY=1). Proxies of the environment are not used: requests wait for minutes, which proxies cut short.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        token: str | None = None,
        patience: float | None = None,
        verify: bool | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._verify = os.environ.get("TRAINABLE_AGENTS_VERIFY") == "1" if verify is None else verify
        self._connection = Connection(url, token=token, patience=patience, transport=transport)
        self._ask = self._connection.ask
        self.url = self._connection.url

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        await self._connection.aclose()

    async def info(self) -> Info:
        return cast(Info, await self._ask("GET", "/v1/info"))

    async def start_episode(self, task_index: int, *, key: str | None = None, **options: Any) -> Episode:
        """Starts an episode. `options`: split, seed, sampling_params, engine. Give a `key` to find the episode again with it."""
        body = _body({"task_index": task_index, **options})
        return cast(Episode, await self._ask("POST", "/v1/episodes", body=body, key=key or uuid.uuid4().hex))

    async def start_group(self, task_index: int, group_size: int, *, key: str | None = None, **options: Any) -> Group:
        """Starts `group_size` episodes of one task. The rest is as in `start_episode`."""
        body = _body({"task_index": task_index, "group_size": group_size, **options})
        return cast(Group, await self._ask("POST", "/v1/groups", body=body, key=key or uuid.uuid4().hex))

    async def episode(self, episode_id: str, *, wait_seconds: float = 0) -> Episode:
        """As it is now, or after at most `wait_seconds`."""
        return cast(Episode, await self._ask("GET", f"/v1/episodes/{episode_id}", wait_seconds=wait_seconds))

    async def group(self, group_id: str, *, wait_seconds: float = 0) -> Group:
        return cast(Group, await self._ask("GET", f"/v1/groups/{group_id}", wait_seconds=wait_seconds))

    async def ended_episode(self, episode_id: str) -> Episode:
        """Waits for its end, however long."""
        while True:
            episode = await self.episode(episode_id, wait_seconds=WAIT_SECONDS)
            if episode["status"] == "ended":
                return episode

    async def ended_group(self, group_id: str) -> Group:
        while True:
            group = await self.group(group_id, wait_seconds=WAIT_SECONDS)
            if group["status"] == "ended":
                return group

    async def episode_samples(self, episode_id: str, *, format: str = "slime") -> Samples:
        """The training rows of an episode that has ended."""
        return self._verified(await self._ask("GET", f"/v1/episodes/{episode_id}/samples", format=format))

    async def group_samples(self, group_id: str, *, format: str = "slime") -> Samples:
        return self._verified(await self._ask("GET", f"/v1/groups/{group_id}/samples", format=format))

    def _verified(self, samples: Any) -> Samples:
        if self._verify and samples["format"] in ("slime", "verl", "tinker", "trl"):
            check_rows(samples["samples"])
        return cast(Samples, samples)

    async def cancel_episode(self, episode_id: str) -> Episode:
        """Ends it; one that has ended stays as it is."""
        return cast(Episode, await self._ask("POST", f"/v1/episodes/{episode_id}/cancel"))

    async def cancel_group(self, group_id: str) -> Group:
        return cast(Group, await self._ask("POST", f"/v1/groups/{group_id}/cancel"))

    async def pause(self) -> None:
        """Holds every episode before its next engine call."""
        await self._ask("POST", "/v1/pause")

    async def resume(self) -> None:
        """Lets the episodes continue."""
        await self._ask("POST", "/v1/continue")

    async def report_weights(
        self, version: str | int, training: str | None = None, *, mismatch: Mapping[str, float] | None = None
    ) -> None:
        """Tells the service the version of the trainer's weights, once the engine has them. Producers of that `training` alone
        count on it; without one, those that name none. A version that no server has is a warning of the logger.
        `mismatch`: how the recorded logprobs and the trainer's differed on its last batch ("mean_kl" in nats, "largest"), which
        the service shows at /metrics."""
        body = _body({"version": version, "training": training, "mismatch": mismatch})
        answer = await self._ask("POST", "/v1/weights", body=body)
        if answer.get("warning"):
            _logger.warning(answer["warning"])

    async def start_producer(
        self, group_size: int, batch_groups: int, *, key: str | None = None, **options: Unpack[ProducerOptions]
    ) -> Producer:
        """Starts a producer of groups of `group_size` episodes for as long as a trainer takes `batch_groups` of them for each of its
        versions. Give a `key` to find the producer again with it: the same key and options are the same producer, also after
        the trainer or the service was killed."""
        body = _body({"group_size": group_size, "batch_groups": batch_groups, **options})
        return cast(Producer, await self._ask("POST", "/v1/producers", body=body, key=key or uuid.uuid4().hex))

    async def heartbeat(self, producer_id: str) -> Producer:
        """Says that its trainer is there, as every batch does: for steps that are longer than its lease."""
        return cast(Producer, await self._ask("POST", f"/v1/producers/{producer_id}/heartbeat"))

    async def producer(self, producer_id: str) -> Producer:
        """As it is now. Its `batches` is the number of the next batch."""
        return cast(Producer, await self._ask("GET", f"/v1/producers/{producer_id}"))

    async def batch(self, producer_id: str, number: int, groups: int | None = None) -> Batch:
        """Waits for batch `number`, however long; they are numbered from 0. Asked for again, it is the same batch, whatever was
        killed in between. `groups`: how many, if not the producer's `batch_groups`. A producer that ended gives fewer, or none."""
        body = _body({"groups": groups, "wait_seconds": WAIT_SECONDS})
        while True:
            batch = cast(Batch, await self._ask("POST", f"/v1/producers/{producer_id}/batches/{number}", body=body))
            if batch["status"] != "waiting":
                return batch

    async def take(self, producer_id: str, number: int, groups: int | None = None, *, format: str = "slime") -> TakenBatch:
        """As `batch`, with the training rows of each group."""
        batch = await self.batch(producer_id, number, groups)
        places = asyncio.Semaphore(_MOST_ROWS_AT_ONCE)

        async def with_rows(group: BatchGroup) -> TakenGroup:
            async with places:
                samples = await self.group_samples(group["id"], format=format)
            return {**group, "rows": samples["samples"], "dropped_tokens": samples["dropped_tokens"]}

        taken = await _all(with_rows(group) for group in batch["groups"])
        return {**batch, "groups": taken}

    async def pause_producer(self, producer_id: str) -> Producer:
        """Starts no further episode of it; those under way go on. What is ready can be taken."""
        return await self._tell(producer_id, "pause")

    async def continue_producer(self, producer_id: str) -> Producer:
        return await self._tell(producer_id, "continue")

    async def drain_producer(self, producer_id: str) -> Producer:
        """Begins no further group. Answers at once; the batches that follow give what was begun, the last one says "ended"."""
        return await self._tell(producer_id, "drain")

    async def cancel_producer(self, producer_id: str) -> Producer:
        """Cancels what runs. No further batch is handed over; earlier ones can still be asked for."""
        return await self._tell(producer_id, "cancel")

    async def _tell(self, producer_id: str, what: str) -> Producer:
        return cast(Producer, await self._ask("POST", f"/v1/producers/{producer_id}/{what}"))


def _body(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


async def _all(work: Iterable[Coroutine[Any, Any, _T]]) -> list[_T]:
    """All of it at once; where one fails, the others are cancelled."""
    tasks = [asyncio.ensure_future(one) for one in work]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
