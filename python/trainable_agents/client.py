"""The rollout service from Python, asynchronously. Not tied to a trainer.

A request that is lost on the way, or refused because the service is busy or restarting, is sent again until the client's
patience ends. Requests that start episodes have an idempotency key, so that sending one again never starts a second episode.
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
"""Concurrent requests for rows: a group has megabytes of them, and the service writes one response at a time anyway."""

_T = TypeVar("_T")

_logger = logging.getLogger(__name__)


class Client:
    """A client of one service. Open it with `async with`, or close it with `aclose`; it belongs to the event loop that uses it
    first.

    `url` and `token` default to the environment variables TRAINABLE_AGENTS_URL and TRAINABLE_AGENTS_TOKEN. `patience` is the
    time in seconds for which a request is repeated before `ServiceUnreachable` is raised. Default: 600 once the service has
    answered, and less than 2 if nothing listens at the address. A wait of more than 2 seconds is reported as a warning of the
    logger "trainable_agents.connection". `verify`: rows of slime, verl, tinker and TRL are checked against their digests, and
    `RowChanged` is raised for one that was changed (default: TRAINABLE_AGENTS_VERIFY=1). Proxies of the environment are not
    used: requests wait for minutes, and proxies would end them early.
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
        """Starts an episode. `options`: split, seed, sampling_params, engine. Pass a `key` to find the episode again later."""
        body = _body({"task_index": task_index, **options})
        return cast(Episode, await self._ask("POST", "/v1/episodes", body=body, key=key or uuid.uuid4().hex))

    async def start_group(self, task_index: int, group_size: int, *, key: str | None = None, **options: Any) -> Group:
        """Starts `group_size` episodes of one task. Other parameters are those of `start_episode`."""
        body = _body({"task_index": task_index, "group_size": group_size, **options})
        return cast(Group, await self._ask("POST", "/v1/groups", body=body, key=key or uuid.uuid4().hex))

    async def episode(self, episode_id: str, *, wait_seconds: float = 0) -> Episode:
        """The current state, returned after at most `wait_seconds` if the end is awaited."""
        return cast(Episode, await self._ask("GET", f"/v1/episodes/{episode_id}", wait_seconds=wait_seconds))

    async def group(self, group_id: str, *, wait_seconds: float = 0) -> Group:
        return cast(Group, await self._ask("GET", f"/v1/groups/{group_id}", wait_seconds=wait_seconds))

    async def ended_episode(self, episode_id: str) -> Episode:
        """Waits for its end, without a time limit."""
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
        """Cancels it; has no effect once it has ended."""
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
        """Reports the version of the trainer's weights to the service, once the engine has them. Only producers of that
        `training` use it; without one, those that name no training. A version that no server has is logged as a warning.
        `mismatch`: difference of the recorded logprobs from the trainer's on its last batch ("mean_kl" in nats, "largest"),
        which the service shows at /metrics."""
        body = _body({"version": version, "training": training, "mismatch": mismatch})
        answer = await self._ask("POST", "/v1/weights", body=body)
        if answer.get("warning"):
            _logger.warning(answer["warning"])

    async def start_producer(
        self, group_size: int, batch_groups: int, *, key: str | None = None, **options: Unpack[ProducerOptions]
    ) -> Producer:
        """Starts a producer of groups of `group_size` episodes, for a trainer that takes `batch_groups` of them for each of its
        weight versions. Pass a `key` to find the producer again: the same key and options name the same producer, even after
        the trainer or the service was killed."""
        body = _body({"group_size": group_size, "batch_groups": batch_groups, **options})
        return cast(Producer, await self._ask("POST", "/v1/producers", body=body, key=key or uuid.uuid4().hex))

    async def heartbeat(self, producer_id: str) -> Producer:
        """Renews the trainer's lease, as every batch request does. For training steps that are longer than the lease."""
        return cast(Producer, await self._ask("POST", f"/v1/producers/{producer_id}/heartbeat"))

    async def producer(self, producer_id: str) -> Producer:
        """The current state; `batches` is the number of the next batch."""
        return cast(Producer, await self._ask("GET", f"/v1/producers/{producer_id}"))

    async def batch(self, producer_id: str, number: int, groups: int | None = None) -> Batch:
        """Waits for batch `number`, without a time limit; batches are numbered from 0. A repeated request returns the same
        batch, even if processes were killed in between. `groups`: the number of groups. Default: the producer's `batch_groups`.
        A producer that has ended returns fewer, or none."""
        body = _body({"groups": groups, "wait_seconds": WAIT_SECONDS})
        while True:
            batch = cast(Batch, await self._ask("POST", f"/v1/producers/{producer_id}/batches/{number}", body=body))
            if batch["status"] != "waiting":
                return batch

    async def take(self, producer_id: str, number: int, groups: int | None = None, *, format: str = "slime") -> TakenBatch:
        """Same as `batch`, with the training rows of each group."""
        batch = await self.batch(producer_id, number, groups)
        places = asyncio.Semaphore(_MOST_ROWS_AT_ONCE)

        async def with_rows(group: BatchGroup) -> TakenGroup:
            async with places:
                samples = await self.group_samples(group["id"], format=format)
            return {**group, "rows": samples["samples"], "dropped_tokens": samples["dropped_tokens"]}

        taken = await _all(with_rows(group) for group in batch["groups"])
        return {**batch, "groups": taken}

    async def pause_producer(self, producer_id: str) -> Producer:
        """Starts no further episode of the producer; episodes in flight continue. Finished batches can be taken."""
        return await self._tell(producer_id, "pause")

    async def continue_producer(self, producer_id: str) -> Producer:
        return await self._tell(producer_id, "continue")

    async def drain_producer(self, producer_id: str) -> Producer:
        """Begins no further group, and returns at once. The following batches hold the groups already begun; the last one has
        the status "ended"."""
        return await self._tell(producer_id, "drain")

    async def cancel_producer(self, producer_id: str) -> Producer:
        """Cancels running episodes. No further batch is handed over; earlier ones can still be requested."""
        return await self._tell(producer_id, "cancel")

    async def _tell(self, producer_id: str, what: str) -> Producer:
        return cast(Producer, await self._ask("POST", f"/v1/producers/{producer_id}/{what}"))


def _body(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


async def _all(work: Iterable[Coroutine[Any, Any, _T]]) -> list[_T]:
    """Awaits all concurrently; if one fails, the others are cancelled."""
    tasks = [asyncio.ensure_future(one) for one in work]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
