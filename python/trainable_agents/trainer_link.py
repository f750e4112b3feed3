"""Use of the service by one trainer process: a client for each event loop, and the record of whether this trainer has paused
the service."""

from __future__ import annotations

import asyncio
import logging
import weakref

from .client import Client
from .connection import PATIENCE
from .settings import Settings

HELD = "trainable_agents_held"
"""Key in a sample's metadata: the id of the episode or group that an earlier rollout left in the service."""

_logger = logging.getLogger(__name__)


class TrainerLink:
    """With partial rollouts, episodes outlive the rollout that started them and must not ask the engine for tokens while its
    weights change. So the service is paused when a rollout ends, and resumes with the next one.
    """

    def __init__(self, settings: Settings) -> None:
        self.client = Client(settings.url, token=settings.token, patience=PATIENCE)
        # `None`: not known. A trainer that was stopped may have left the service paused.
        self._is_held: bool | None = None

    async def hold(self) -> None:
        if self._is_held:
            return
        self._is_held = True
        await self.client.pause()
        _logger.info("Paused the rollout service until the next rollout.")

    async def go_on(self, *, is_partial: bool) -> None:
        if self._is_held is False or (self._is_held is None and not is_partial):
            return
        self._is_held = False
        await self.client.resume()


_links: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, dict[tuple[str, str | None], TrainerLink]] = (
    weakref.WeakKeyDictionary()
)


def link_for(settings: Settings) -> TrainerLink:
    """The client of the running loop: connections cannot be shared between loops. slime has one loop for all its rollouts."""
    links = _links.setdefault(asyncio.get_running_loop(), {})
    place = (settings.url, settings.token)
    if place not in links:
        links[place] = TrainerLink(settings)
    return links[place]


async def close_links() -> None:
    """Closes the connections of the running loop. slime never needs this; code that ends a loop calls it first."""
    for link in _links.pop(asyncio.get_running_loop(), {}).values():
        await link.client.aclose()
