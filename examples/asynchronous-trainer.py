"""A trainer that trains while the next batches are sampled. Needs httpx and a running service:

    npx trainable-agents serve --env bookshop --out runs/service
    python asynchronous-trainer.py --training first
"""

import argparse
import os
import statistics
import time

import httpx

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--url", default="http://127.0.0.1:8800")
parser.add_argument("--training", required=True, help="any name; the same name resumes the same producer")
parser.add_argument("--step", type=int, default=0, help="step of the checkpoint to resume from")
options = parser.parse_args()
token = os.environ.get("TRAINABLE_AGENTS_TOKEN")
service = httpx.Client(base_url=options.url, headers={"authorization": f"Bearer {token}"} if token else {}, timeout=120)


def ask(method: str, path: str, body: dict | None = None, key: str | None = None) -> dict:
    """Every request is idempotent, so it is repeated until the service is reachable and has capacity."""
    headers = {} if key is None else {"idempotency-key": key}
    while True:
        try:
            answer = service.request(method, path, json=body, headers=headers)
        except httpx.TransportError:
            time.sleep(1)
            continue
        if answer.status_code not in (429, 503):
            return answer.raise_for_status().json()
        time.sleep(float(answer.headers.get("retry-after", 1)))


def batch(number: int) -> list[dict]:
    """The same number returns the same batch, even if the trainer, the service or both were killed in between."""
    while True:
        answer = ask("POST", f"/v1/producers/{producer}/batches/{number}", {"wait_seconds": 60})
        if answer["status"] != "waiting":
            return answer["groups"]


def reward_of(row: dict) -> float:
    """The reward of the episode, minus a penalty for each rule of the shop that it broke."""
    return row["reward"] - 0.1 * row["metadata"]["metrics"].get("ruleViolations", 0)


plan = {"group_size": 8, "batch_groups": 4, "max_staleness": 1, "filters": ["zero-signal"], "training": options.training}
producer = ask("POST", "/v1/producers", plan, key=options.training)["id"]
# The engine has the weights of the checkpoint by now. A trainer that was killed may have left the service paused.
ask("POST", "/v1/continue")
for step in range(options.step, 4):
    for group in batch(step):
        rows = ask("GET", f"/v1/groups/{group['id']}/samples?format=slime")["samples"]
        # Failed episodes have no reward. An episode may have several rows, and counts once.
        rewards = {row["rollout_id"]: reward_of(row) for row in rows if row["reward"] is not None}
        mean, spread = statistics.fmean(rewards.values()), statistics.pstdev(rewards.values()) + 1e-6
        advantages = [(reward - mean) / spread for reward in rewards.values()]
        print(f"step {step} group {group['id']} staleness {group['staleness']} advantages", *(f"{a:+.2f}" for a in advantages))
        # Your loss goes here, as in your-own-trainer.py. Meanwhile the service runs the episodes of the next steps.
    ask("POST", "/v1/pause")  # no engine call begins: change the weights here, and save a checkpoint of step + 1
    ask("POST", "/v1/weights", {"version": step + 1, "training": options.training})
    ask("POST", "/v1/continue")
ask("POST", f"/v1/producers/{producer}/cancel")
