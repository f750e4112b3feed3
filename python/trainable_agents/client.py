"""The rollout service from Python, asynchronously. Not tied to a trainer.

A request that is lost on the way, or refused because the service is busy or restarting, is sent again until the client's
patience ends. What starts an episode carries an idempotency key, so that sending it again never starts a second one.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import uuid
from types import TracebackType
from typing import Any, cast

import httpx

from .errors import ConfigurationError, ServiceUnreachable, refused
from .wire import Episode, Group, Info, Samples

DEFAULT_URL = "http://127.0.0.1:8800"
WAIT_SECONDS = 30.0
"""How long one request waits for an end before it is sent again."""

_BUSY = frozenset({429, 502, 503, 504})
_LONGEST_PAUSE = 10.0


class Client:
    """One service. Open it with `async with`, or close it with `aclose`; it belongs to the event loop that uses it first.

    `url` and `token` default to the environment variables TRAINABLE_AGENTS_URL and TRAINABLE_AGENTS_TOKEN. `patience` is how
    many seconds a request is repeated for before `ServiceUnreachable` is raised. Proxies of the environment are not used:
    requests wait for minutes, which proxies cut short.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        token: str | None = None,
        patience: float = 600.0,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self.url = (url or os.environ.get("TRAINABLE_AGENTS_URL") or DEFAULT_URL).rstrip("/")
        if not self.url.startswith(("http://", "https://")):
            raise ConfigurationError(
                f'Cannot use the address "{self.url}" of the service: it begins with http:// or https://, like {DEFAULT_URL}.'
            )
        token = token or os.environ.get("TRAINABLE_AGENTS_TOKEN") or None
        self._patience = patience
        self._http = httpx.AsyncClient(
            base_url=self.url,
            headers={} if token is None else {"authorization": f"Bearer {token}"},
            timeout=httpx.Timeout(30.0, read=WAIT_SECONDS + 30.0, pool=None),
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=256),
            trust_env=False,
            # Certificates take a while to load.
            verify=self.url.startswith("https://"),
            transport=transport,
        )

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        await self._http.aclose()

    async def info(self) -> Info:
        return cast(Info, await self._ask("GET", "/v1/info"))

    async def start_episode(self, task_index: int, *, key: str | None = None, **options: Any) -> Episode:
        """Starts an episode. `options`: split, seed, sampling_params, engine. Give a `key` to find the episode again with it."""
        body = _body({"task_index": task_index, **options})
        return cast(Episode, await self._ask("POST", "/v1/episodes", body=body, key=key or uuid.uuid4().hex))

    async def start_group(self, task_index: int, samples: int, *, key: str | None = None, **options: Any) -> Group:
        """Starts `samples` episodes of one task. The rest is as in `start_episode`."""
        body = _body({"task_index": task_index, "samples": samples, **options})
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
        return cast(Samples, await self._ask("GET", f"/v1/episodes/{episode_id}/samples", format=format))

    async def group_samples(self, group_id: str, *, format: str = "slime") -> Samples:
        return cast(Samples, await self._ask("GET", f"/v1/groups/{group_id}/samples", format=format))

    async def cancel_episode(self, episode_id: str) -> Episode:
        """Ends it; one that has ended stays as it is."""
        return cast(Episode, await self._ask("POST", f"/v1/episodes/{episode_id}/cancel"))

    async def cancel_group(self, group_id: str) -> Group:
        return cast(Group, await self._ask("POST", f"/v1/groups/{group_id}/cancel"))

    async def pause(self) -> None:
        """Holds every episode before its next engine call."""
        await self._ask("POST", "/v1/pause")

    async def resume(self) -> None:
        """Lets the episodes go on."""
        await self._ask("POST", "/v1/continue")

    async def report_weights(self, version: str | int) -> None:
        """Tells the service the version of the trainer's weights."""
        await self._ask("POST", "/v1/weights", body={"version": version})

    async def _ask(
        self, method: str, path: str, *, body: dict[str, Any] | None = None, key: str | None = None, **query: Any
    ) -> Any:
        headers = {} if key is None else {"idempotency-key": key}
        clock = asyncio.get_running_loop().time
        began = clock()
        tries = 0
        while True:
            pause = min(_LONGEST_PAUSE, 0.1 * 2 ** min(tries, 10)) * random.uniform(0.5, 1.0)
            tries += 1
            try:
                answer = await self._http.request(method, path, params=query, json=body, headers=headers)
            except httpx.TransportError as error:
                reason = f"{type(error).__name__}: {error}"
            else:
                if answer.status_code not in _BUSY:
                    return _read(answer, self.url)
                reason = f"{answer.status_code}: {_refusal(answer)[1]}"
                # Spread out: everybody who was refused hears the same number.
                pause = max(pause, _retry_after(answer) * random.uniform(1.0, 1.5))
            if clock() - began + pause > self._patience:
                raise ServiceUnreachable(
                    f"Cannot reach the rollout service at {self.url} for {self._patience:g} s ({tries} tries, last {reason}): "
                    "start it with `trainable-agents serve` in the same folder, correct TRAINABLE_AGENTS_URL, or lower the load."
                )
            await asyncio.sleep(pause)


def _body(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _read(answer: httpx.Response, url: str) -> Any:
    if answer.is_success:
        try:
            return answer.json()
        except json.JSONDecodeError:
            raise ConfigurationError(
                f"Cannot read the answer of {url}: it is no JSON, so this is not the rollout service; correct TRAINABLE_AGENTS_URL."
            ) from None
    code, message = _refusal(answer)
    if answer.status_code == 401:
        message += " The token is read from TRAINABLE_AGENTS_TOKEN."
    raise refused(message, status=answer.status_code, code=code)


def _refusal(answer: httpx.Response) -> tuple[str, str]:
    try:
        error = answer.json()["error"]
        return str(error["code"]), str(error["message"])
    except (ValueError, KeyError, TypeError):
        return (
            "unknown",
            f"{answer.request.url} answered {answer.status_code}, not as the rollout service does: {answer.text[:200]!r}.",
        )


def _retry_after(answer: httpx.Response) -> float:
    try:
        return min(60.0, max(0.0, float(answer.headers.get("retry-after", "0"))))
    except ValueError:
        return 0.0
