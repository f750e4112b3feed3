"""google-genai for Python: a chat that keeps its history, whole and streamed."""

from google import genai
from google.genai import types

from world import api_key, base_url, begun, call_tool, converse, streamed

client = genai.Client(api_key=api_key, http_options=types.HttpOptions(base_url=base_url.removesuffix("/v1")))
declared = [
    types.FunctionDeclaration(
        name=tool["name"],
        description=tool["description"],
        parameters_json_schema=tool["parameters"],
    )
    for tool in begun["tools"]
]
config = types.GenerateContentConfig(
    system_instruction=begun["guidelines"],
    tools=[types.Tool(function_declarations=declared)],
    automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
)
chat = client.chats.create(model="policy", config=config)


def send(message: str | list[types.Part]) -> list[types.Part]:
    answers = chat.send_message_stream(message) if streamed else [chat.send_message(message)]
    return [part for answer in answers for part in answer.candidates[0].content.parts]


def turn(heard: str) -> str:
    parts = send(heard)
    while calls := [part.function_call for part in parts if part.function_call is not None]:
        results = [
            types.FunctionResponse(id=call.id, name=call.name, response={"result": call_tool(call.name, call.args)})
            for call in calls
        ]
        parts = send([types.Part(function_response=result) for result in results])
    return "".join(part.text or "" for part in parts)


assert client.models.count_tokens(model="policy", contents="How many?").total_tokens > 0
converse(turn)
