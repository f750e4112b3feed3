"""A trainer in 50 lines: requests groups, computes advantages, reports weights. Requires httpx and a running service:

    npx trainable-agents serve --env bookshop --out runs/service
    python your-own-trainer.py http://127.0.0.1:8800
"""

import os
import statistics
import sys
import uuid

import httpx

token = os.environ.get("TRAINABLE_AGENTS_TOKEN")
service = httpx.Client(
    base_url=sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8800",
    headers={"authorization": f"Bearer {token}"} if token else {},
    timeout=120,
)
training = uuid.uuid4().hex


def start(step: int, task: int) -> str:
    """The key identifies the group, so that a repeated request never starts episodes twice."""
    body = {"task_index": task, "group_size": 8, "sampling_params": {"temperature": 1.0}}
    answer = service.post("/v1/groups", json=body, headers={"idempotency-key": f"{training}-{step}-{task}"})
    return answer.raise_for_status().json()["id"]


def rows_of(group: str) -> list[dict]:
    while service.get(f"/v1/groups/{group}?wait_seconds=60").raise_for_status().json()["status"] != "ended":
        pass
    rows = service.get(f"/v1/groups/{group}/samples?format=slime").raise_for_status().json()["samples"]
    return [row for row in rows if row["reward"] is not None]  # failed episodes have none


def reward_of(row: dict) -> float:
    """The reward of the episode, minus a penalty for each rule of the shop that it broke."""
    return row["reward"] - 0.1 * row["metadata"]["metrics"].get("ruleViolations", 0)


for step in range(3):
    groups = [start(step, task) for task in range(4)]  # they all run at once
    for rows in map(rows_of, groups):
        rewards = {row["rollout_id"]: reward_of(row) for row in rows}  # an episode may have several rows, and counts once
        if len(rewards) < 2:
            continue  # a single episode has nothing to be compared with
        mean, spread = statistics.fmean(rewards.values()), statistics.pstdev(rewards.values()) + 1e-6
        for row in rows:
            advantage = (rewards[row["rollout_id"]] - mean) / spread * row["metadata"]["weight"]
            actions = row["tokens"][-row["response_length"] :]
            trained = [(token, old) for token, mask, old in zip(actions, row["loss_mask"], row["rollout_log_probs"]) if mask]
            print(f"step {step} task {row['metadata']['task_id']} tokens {len(trained)} advantage {advantage:+.2f}")
            # Your loss goes here: -min(ratio * advantage, clipped) over `trained`, with ratio = exp(new - old).
    service.post("/v1/pause").raise_for_status()  # no engine call begins: change the weights here
    service.post("/v1/weights", json={"version": step + 1}).raise_for_status()
    service.post("/v1/continue").raise_for_status()
