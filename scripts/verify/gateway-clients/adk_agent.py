"""Google's Agent Development Kit: an agent whose model is behind LiteLLM."""

import asyncio

from google.adk.agents import LlmAgent
from google.adk.agents.run_config import RunConfig, StreamingMode
from google.adk.models.lite_llm import LiteLlm
from google.adk.runners import InMemoryRunner
from google.adk.tools.base_tool import BaseTool
from google.genai import types

from world import api_key, base_url, begun, call_tool, converse, streamed


class WorldTool(BaseTool):
    def __init__(self, tool: dict) -> None:
        super().__init__(name=tool["name"], description=tool["description"])
        self.parameters = tool["parameters"]

    def _get_declaration(self) -> types.FunctionDeclaration:
        return types.FunctionDeclaration(
            name=self.name, description=self.description, parameters_json_schema=self.parameters
        )

    async def run_async(self, *, args, tool_context) -> str:
        return call_tool(self.name, args)


agent = LlmAgent(
    name="clerk",
    model=LiteLlm(model="openai/policy", api_base=base_url, api_key=api_key),
    instruction=lambda _: begun["guidelines"],
    tools=[WorldTool(tool) for tool in begun["tools"]],
)
runner = InMemoryRunner(agent=agent, app_name="clerk")
mode = RunConfig(streaming_mode=StreamingMode.SSE if streamed else StreamingMode.NONE)


async def one(session, heard: str) -> str:
    said = ""
    message = types.Content(role="user", parts=[types.Part(text=heard)])
    async for event in runner.run_async(
        user_id="user", session_id=session.id, new_message=message, run_config=mode
    ):
        if event.is_final_response() and not event.partial and event.content is not None:
            said = "".join(part.text or "" for part in event.content.parts or [])
    return said


async def main() -> None:
    session = await runner.session_service.create_session(app_name="clerk", user_id="user")
    loop = asyncio.get_running_loop()
    await asyncio.to_thread(
        converse, lambda heard: asyncio.run_coroutine_threadsafe(one(session, heard), loop).result()
    )


asyncio.run(main())
