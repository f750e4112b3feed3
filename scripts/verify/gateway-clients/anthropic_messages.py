"""anthropic for Python: Messages."""

import json
import os
import sys
import urllib.request

from anthropic import Anthropic

address, streamed = sys.argv[1], sys.argv[2] == "streamed"
client = Anthropic(
    base_url=os.environ["TRAINABLE_AGENTS_BASE_URL"].removesuffix("/v1"), api_key=os.environ["TRAINABLE_AGENTS_SESSION"]
)


def post(path: str, body: object) -> dict:
    with urllib.request.urlopen(address + path, json.dumps(body).encode()) as answer:
        return json.load(answer)


begun = post("/start", {})
messages: list = []
tools = [
    {"name": tool["name"], "description": tool["description"], "input_schema": tool["parameters"]} for tool in begun["tools"]
]
request = {"model": "policy", "max_tokens": 1000, "system": begun["guidelines"], "messages": messages, "tools": tools}

heard = begun["utterance"]
while heard is not None:
    messages.append({"role": "user", "content": heard})
    while True:
        if streamed:
            with client.messages.stream(**request) as stream:
                message = stream.get_final_message()
        else:
            message = client.messages.create(**request)
        messages.append({"role": "assistant", "content": message.content})
        calls = [block for block in message.content if block.type == "tool_use"]
        if not calls:
            break
        results = [
            {
                "type": "tool_result",
                "tool_use_id": call.id,
                "content": post("/call", {"name": call.name, "arguments": call.input})["text"],
            }
            for call in calls
        ]
        messages.append({"role": "user", "content": results})
    text = "".join(block.text for block in message.content if block.type == "text")
    heard = post("/say", {"text": text})["text"]
