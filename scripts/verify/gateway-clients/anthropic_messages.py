"""anthropic for Python: Messages."""

from anthropic import Anthropic

from world import api_key, base_url, begun, call_tool, converse, streamed

client = Anthropic(base_url=base_url.removesuffix("/v1"), api_key=api_key)
messages: list = []
tools = [
    {"name": tool["name"], "description": tool["description"], "input_schema": tool["parameters"]} for tool in begun["tools"]
]
request = {"model": "policy", "max_tokens": 1000, "system": begun["guidelines"], "messages": messages, "tools": tools}


def turn(heard: str) -> str:
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
            return "".join(block.text for block in message.content if block.type == "text")
        results = [
            {"type": "tool_result", "tool_use_id": call.id, "content": call_tool(call.name, call.input)} for call in calls
        ]
        messages.append({"role": "user", "content": results})


converse(turn)
