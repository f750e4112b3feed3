"""Requests to the service, each repeated until it is answered or patience ends. Independent of what is requested."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import random
from typing import Any

import httpx

from .errors import ConfigurationError, ServiceUnreachable, refused

DEFAULT_URL = "http://127.0.0.1:8800"
WAIT_SECONDS = 30.0
"""Time that one request waits at the service before it is answered and sent again."""
PATIENCE = 600.0
"""Seconds for which a request is repeated, once the service has answered; trainers wait this long from the start."""
_FIRST_CONTACT = 1.5
"""Seconds after which an address is reported as one where nothing listens."""

_logger = logging.getLogger(__name__)

_BUSY = frozenset({429, 502, 503, 504})
_LONGEST_PAUSE = 10.0


class Connection:
    """A connection to one service. `Client` documents `url`, `token` and `patience`."""

    def __init__(
        self, url: str | None, *, token: str | None, patience: float | None, transport: httpx.AsyncBaseTransport | None
    ) -> None:
        self.url = (url or os.environ.get("TRAINABLE_AGENTS_URL") or DEFAULT_URL).rstrip("/")
        if not self.url.startswith(("http://", "https://")):
            raise ConfigurationError(
                f'Cannot use the address "{self.url}" of the service: it begins with http:// or https://, like {DEFAULT_URL}.'
            )
        token = token or os.environ.get("TRAINABLE_AGENTS_TOKEN") or None
        self._patience = PATIENCE if patience is None else patience
        self._waits_for_first = patience is not None
        self._has_answered = False
        self._http = httpx.AsyncClient(
            base_url=self.url,
            headers={} if token is None else {"authorization": f"Bearer {token}"},
            timeout=httpx.Timeout(30.0, read=WAIT_SECONDS + 30.0, pool=None),
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=256),
            trust_env=False,
            # Loading certificates takes a while.
            verify=self.url.startswith("https://"),
            transport=transport,
        )

    async def aclose(self) -> None:
        await self._http.aclose()

    async def ask(
        self, method: str, path: str, *, body: dict[str, Any] | None = None, key: str | None = None, **query: Any
    ) -> Any:
        headers = {} if key is None else {"idempotency-key": key}
        clock = asyncio.get_running_loop().time
        began = clock()
        tries = 0
        is_said = False
        while True:
            pause = min(_LONGEST_PAUSE, 0.1 * 2 ** min(tries, 10)) * random.uniform(0.5, 1.0)
            tries += 1
            try:
                answer = await self._http.request(method, path, params=query, json=body, headers=headers)
            except httpx.TransportError as error:
                reason = f"{type(error).__name__}: {error}"
                is_silent = clock() - began + pause > _FIRST_CONTACT
                if is_silent and isinstance(error, httpx.ConnectError) and not (self._has_answered or self._waits_for_first):
                    raise ServiceUnreachable(
                        f"Cannot reach the rollout service at {self.url}: nothing listens there ({tries} tries, last {reason}); "
                        "start it with `trainable-agents serve`, correct TRAINABLE_AGENTS_URL, or pass `patience` in seconds to "
                        "wait for a service that starts later."
                    ) from None
                if is_silent and not is_said:
                    is_said = True
                    _logger.warning(
                        "The rollout service at %s does not answer (%s); trying again for %g s.",
                        self.url,
                        reason,
                        self._patience,
                    )
            else:
                self._has_answered = True
                if answer.status_code not in _BUSY:
                    return _read(answer, self.url)
                reason = f"{answer.status_code}: {_refusal(answer)[1]}"
                # Randomized, because all refused clients receive the same delay.
                pause = max(pause, _retry_after(answer) * random.uniform(1.0, 1.5))
            if clock() - began + pause > self._patience:
                raise ServiceUnreachable(
                    f"Cannot reach the rollout service at {self.url} for {self._patience:g} s ({tries} tries, last {reason}): "
                    "start it with `trainable-agents serve` in the same folder, correct TRAINABLE_AGENTS_URL, or lower the load."
                )
            await asyncio.sleep(pause)


def _read(answer: httpx.Response, url: str) -> Any:
    if answer.is_success:
        try:
            return answer.json()
        except json.JSONDecodeError:
            raise ConfigurationError(
                f"Cannot read the answer of {url}: it is not JSON, so this is not the rollout service; correct TRAINABLE_AGENTS_URL."
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
