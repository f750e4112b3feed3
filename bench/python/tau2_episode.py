"""CPU of tau2-bench itself in an episode: world construction, reference calls, grading. Arguments: checkout, domain, episodes."""

import json
import os
import sys
import time

checkout, domain, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
sys.path.insert(0, os.path.join(checkout, "src"))
os.environ["TAU2_DATA_DIR"] = os.path.join(checkout, "data")

from loguru import logger  # noqa: E402

logger.remove()

from tau2.data_model.message import AssistantMessage, ToolCall, UserMessage  # noqa: E402
from tau2.data_model.simulation import SimulationRun, TerminationReason  # noqa: E402
from tau2.evaluator.evaluator import EvaluationType, evaluate_simulation  # noqa: E402
from tau2.evaluator.evaluator_nl_assertions import NLAssertionsEvaluator  # noqa: E402
from tau2.data_model.simulation import NLAssertionCheck  # noqa: E402
from tau2.registry import registry  # noqa: E402


def judge(trajectory, nl_assertions):
    return [NLAssertionCheck(nl_assertion=one, met=True, justification="") for one in nl_assertions]


NLAssertionsEvaluator.evaluate_nl_assertions = staticmethod(judge)

tasks = registry.get_tasks_loader(domain)("base")[:count]


def play(task):
    world = registry.get_env_constructor(domain)()
    initial = task.initial_state
    world.set_state(
        initialization_data=initial.initialization_data if initial else None,
        initialization_actions=initial.initialization_actions if initial else None,
        message_history=[],
    )
    messages = [AssistantMessage(role="assistant", content="Hi! How can I help you today?"), UserMessage(role="user", content="Hello.")]
    criteria = task.evaluation_criteria
    for number, action in enumerate(criteria.actions or []):
        call = ToolCall(id=str(number), name=action.name, arguments=action.arguments, requestor=action.requestor)
        kind = UserMessage if action.requestor == "user" else AssistantMessage
        messages += [kind(role=action.requestor, content=None, tool_calls=[call]), world.get_response(call)]
    messages.append(AssistantMessage(role="assistant", content=" ".join(["Done.", *(criteria.communicate_info or [])])))
    messages.append(UserMessage(role="user", content="###STOP###"))
    simulation = SimulationRun(
        id="1", task_id=task.id, start_time="", end_time="", duration=0, termination_reason=TerminationReason.USER_STOP, messages=messages
    )
    return evaluate_simulation(
        domain=domain, task=task, simulation=simulation, evaluation_type=EvaluationType.ALL, solo_mode=False
    ).reward


play(tasks[0])
started = time.process_time()
reward = sum(play(task) for task in tasks)
print(json.dumps({"seconds": (time.process_time() - started) / len(tasks), "reward": reward, "episodes": len(tasks)}))
