"""Strands Agents: its OpenAI model, which always streams, and tools by specification."""

from strands import Agent
from strands.models.openai import OpenAIModel
from strands.tools import PythonAgentTool

from world import api_key, base_url, begun, call_tool, converse


def tool_of(tool: dict) -> PythonAgentTool:
    def call(use: dict, **_: object) -> dict:
        content = [{"text": call_tool(use["name"], use["input"])}]
        return {"toolUseId": use["toolUseId"], "status": "success", "content": content}

    schema = {"json": tool["parameters"]}
    specification = {"name": tool["name"], "description": tool["description"], "inputSchema": schema}
    return PythonAgentTool(tool["name"], specification, call)


agent = Agent(
    model=OpenAIModel(client_args={"base_url": base_url, "api_key": api_key}, model_id="policy"),
    system_prompt=begun["guidelines"],
    tools=[tool_of(tool) for tool in begun["tools"]],
    callback_handler=None,
)
converse(lambda heard: str(agent(heard)).strip())
