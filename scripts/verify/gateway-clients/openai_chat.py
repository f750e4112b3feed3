"""openai for Python: Chat Completions."""

import json
import os
import sys
import urllib.request

from openai import OpenAI

address, streamed = sys.argv[1], sys.argv[2] == "streamed"
client = OpenAI(base_url=os.environ["TRAINABLE_AGENTS_BASE_URL"], api_key=os.environ["TRAINABLE_AGENTS_SESSION"])


def post(path: str, body: object) -> dict:
    with urllib.request.urlopen(address + path, json.dumps(body).encode()) as answer:
        return json.load(answer)


begun = post("/start", {})
messages: list = [{"role": "system", "content": begun["guidelines"]}]
tools = [{"type": "function", "function": tool} for tool in begun["tools"]]


def sample() -> dict:
    if not streamed:
        return client.chat.completions.create(model="policy", messages=messages, tools=tools).choices[0].message.model_dump()
    with client.chat.completions.stream(model="policy", messages=messages, tools=tools) as stream:
        return stream.get_final_completion().choices[0].message.model_dump(exclude={"parsed"})


heard = begun["utterance"]
while heard is not None:
    messages.append({"role": "user", "content": heard})
    while True:
        message = sample()
        calls = message.get("tool_calls") or []
        kept = {"role": "assistant", "content": message["content"]}
        if calls:
            kept["tool_calls"] = [
                {"id": one["id"], "type": "function", "function": {key: one["function"][key] for key in ("name", "arguments")}}
                for one in calls
            ]
        messages.append(kept)
        if not calls:
            break
        for call in calls:
            made = {"name": call["function"]["name"], "arguments": json.loads(call["function"]["arguments"])}
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": post("/call", made)["text"]})
    heard = post("/say", {"text": messages[-1]["content"] or ""})["text"]
