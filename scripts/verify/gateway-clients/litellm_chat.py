"""litellm: `completion` of an OpenAI-compatible server."""

import json

import litellm

from world import api_key, base_url, begun, call_tool, converse, streamed

litellm.telemetry = False
messages: list = [{"role": "system", "content": begun["guidelines"]}]
tools = [{"type": "function", "function": tool} for tool in begun["tools"]]


def sample():
    given = {"model": "openai/policy", "api_base": base_url, "api_key": api_key, "messages": messages, "tools": tools}
    if not streamed:
        return litellm.completion(**given).choices[0].message
    chunks = list(litellm.completion(**given, stream=True))
    return litellm.stream_chunk_builder(chunks, messages=messages).choices[0].message


def turn(heard: str) -> str:
    messages.append({"role": "user", "content": heard})
    while True:
        message = sample()
        messages.append(message.model_dump(exclude_none=True))
        if not message.tool_calls:
            return message.content or ""
        for call in message.tool_calls:
            result = call_tool(call.function.name, json.loads(call.function.arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result})


converse(turn)
