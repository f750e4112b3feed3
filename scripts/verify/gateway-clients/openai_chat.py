"""openai for Python: Chat Completions."""

import json

from openai import OpenAI

from world import api_key, base_url, begun, call_tool, converse, streamed

client = OpenAI(base_url=base_url, api_key=api_key)
messages: list = [{"role": "system", "content": begun["guidelines"]}]
tools = [{"type": "function", "function": tool} for tool in begun["tools"]]


def sample() -> dict:
    if not streamed:
        return client.chat.completions.create(model="policy", messages=messages, tools=tools).choices[0].message.model_dump()
    with client.chat.completions.stream(model="policy", messages=messages, tools=tools) as stream:
        return stream.get_final_completion().choices[0].message.model_dump(exclude={"parsed"})


def turn(heard: str) -> str:
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
            return message["content"] or ""
        for call in calls:
            result = call_tool(call["function"]["name"], json.loads(call["function"]["arguments"]))
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})


converse(turn)
