"""Pydantic AI: an agent with tools that have a schema, and its own message history."""

import asyncio
import functools

from pydantic_ai import Agent, Tool
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from world import api_key, base_url, begun, call_tool, converse, streamed


def tool_of(tool: dict) -> Tool:
    def call(name: str, **arguments: object) -> str:
        return call_tool(name, arguments)

    function = functools.partial(call, tool["name"])
    return Tool.from_schema(function, tool["name"], tool["description"], tool["parameters"])


model = OpenAIChatModel("policy", provider=OpenAIProvider(base_url=base_url, api_key=api_key))
agent = Agent(model, system_prompt=begun["guidelines"], tools=[tool_of(tool) for tool in begun["tools"]])
history: list = []


async def one(heard: str) -> str:
    global history
    if not streamed:
        result = await agent.run(heard, message_history=history)
        history = result.all_messages()
        return result.output
    async with agent.run_stream(heard, message_history=history) as result:
        output = await result.get_output()
        history = result.all_messages()
        return output


loop = asyncio.new_event_loop()
converse(lambda heard: loop.run_until_complete(one(heard)))
