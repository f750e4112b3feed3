"""A client without a service: its requests get prepared answers in order, without a socket."""

from __future__ import annotations

import httpx
from trainable_agents.client import Client


def answering(*answers: httpx.Response | Exception, patience: float | None = 2.0) -> tuple[Client, list[httpx.Request]]:
    """A client whose requests get prepared answers in order, and the recorded requests."""
    requests: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        requests.append(request)
        given = answers[min(len(requests), len(answers)) - 1]
        if isinstance(given, Exception):
            raise given
        return given

    return Client("http://service", patience=patience, transport=httpx.MockTransport(answer)), requests


def refusal(status: int, code: str, **headers: str) -> httpx.Response:
    return httpx.Response(status, json={"error": {"code": code, "message": "Why."}}, headers=headers)
