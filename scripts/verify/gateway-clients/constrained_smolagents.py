"""smolagents: a ToolCallingAgent, which requires a tool call in every step and ends with final_answer."""

import os

from smolagents import OpenAIServerModel, ToolCallingAgent, tool

called = []


@tool
def get_weather(city: str) -> str:
    """Gives the weather of a city.

    Args:
        city: The name of the city.
    """
    called.append(city)
    return "sunny"


model = OpenAIServerModel(
    model_id="policy",
    api_base=os.environ["TRAINABLE_AGENTS_BASE_URL"],
    api_key=os.environ["TRAINABLE_AGENTS_SESSION"],
)
answer = ToolCallingAgent(tools=[get_weather], model=model, max_steps=4).run("What is the weather in Rome?")
assert (called, answer) == (["Rome"], "Rome"), (called, answer)
print("constrained: ok")
