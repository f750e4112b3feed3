"""dspy: a signature with typed fields, over the adapter that requests JSON."""

import os

import dspy


class Weather(dspy.Signature):
    """Tells the weather."""

    question: str = dspy.InputField()
    city: str = dspy.OutputField()
    degrees: int = dspy.OutputField()


lm = dspy.LM(
    "openai/gpt-4o-mini",  # A name that dspy knows to take schemas.
    api_base=os.environ["TRAINABLE_AGENTS_BASE_URL"],
    api_key=os.environ["TRAINABLE_AGENTS_SESSION"],
    cache=False,
)
dspy.configure(lm=lm, adapter=dspy.JSONAdapter())
answer = dspy.Predict(Weather)(question="What is the weather?")
assert (answer.city, answer.degrees) == ("Rome", 21), answer
print("constrained: ok")
