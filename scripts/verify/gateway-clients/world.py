"""Shared code of the client programs in Python: the tools and the user of one bookshop task, over HTTP.

The program acts as the agent; its arguments are the address of its world, and "whole" or "streamed".
"""

import json
import os
import sys
import urllib.request
from collections.abc import Callable
from typing import Any

address, streamed = sys.argv[1], sys.argv[2] == "streamed"
base_url = os.environ["TRAINABLE_AGENTS_BASE_URL"]
api_key = os.environ["TRAINABLE_AGENTS_SESSION"]


def post(path: str, body: object) -> dict[str, Any]:
    with urllib.request.urlopen(address + path, json.dumps(body).encode()) as answer:
        return json.load(answer)


begun = post("/start", {})
"""`guidelines`, `utterance`, and `tools` with `name`, `description` and `parameters`."""


def call_tool(name: str, arguments: object) -> str:
    return post("/call", {"name": name, "arguments": arguments})["text"]


def converse(turn: Callable[[str], str]) -> None:
    """Talks until the user hangs up. `turn` receives the new message for the agent, calls tools, and returns the agent's reply."""
    heard = begun["utterance"]
    while heard is not None:
        heard = post("/say", {"text": turn(heard)})["text"]
