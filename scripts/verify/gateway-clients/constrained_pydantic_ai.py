"""Pydantic AI: an agent with an output type, as a forced tool (the default) and as a native format."""

import os

from pydantic import BaseModel
from pydantic_ai import Agent, NativeOutput
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider


class Weather(BaseModel):
    city: str
    degrees: int


provider = OpenAIProvider(
    base_url=os.environ["TRAINABLE_AGENTS_BASE_URL"], api_key=os.environ["TRAINABLE_AGENTS_SESSION"]
)
model = OpenAIChatModel("policy", provider=provider)
for output in (Weather, NativeOutput(Weather)):
    result = Agent(model, output_type=output).run_sync("What is the weather?")
    assert result.output == Weather(city="Rome", degrees=21), result.output
print("constrained: ok")
