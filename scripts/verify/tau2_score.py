"""Scores files of simulations with tau2-bench itself, as its `evaluate-trajs --fresh-tasks` does.

Arguments: the checkout, then pairs of a file and "true" or "false", the judge's verdict on every natural-language assertion. Prints one line of JSON for each file: the results of the reference's evaluator for its simulations, in order.
"""

import json
import os
import sys

checkout = sys.argv[1]
sys.path.insert(0, os.path.join(checkout, "src"))
os.environ["TAU2_DATA_DIR"] = os.path.join(checkout, "data")

from loguru import logger  # noqa: E402

logger.remove()

from tau2.data_model.simulation import NLAssertionCheck, Results  # noqa: E402
from tau2.evaluator.evaluator_nl_assertions import NLAssertionsEvaluator  # noqa: E402
from tau2.scripts.evaluate_trajectories import compute_simulation_rewards  # noqa: E402

rest = sys.argv[2:]
for path, verdict in zip(rest[::2], rest[1::2]):

    def judge(trajectory, nl_assertions, met=verdict == "true"):
        return [NLAssertionCheck(nl_assertion=one, met=met, justification="constant") for one in nl_assertions]

    NLAssertionsEvaluator.evaluate_nl_assertions = staticmethod(judge)
    scored = compute_simulation_rewards(Results.load(path), fresh_tasks=True)
    print(json.dumps([one.reward_info.model_dump(mode="json") for one in scored.simulations]), flush=True)
