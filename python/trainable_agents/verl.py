"""An agent loop for verl that runs its episodes in the service: `Loop` is what `rollout.agent.agent_loop_config_path` names.

```yaml
- name: trainable_agents
  _target_: trainable_agents.verl.Loop
  url: http://127.0.0.1:8800   # further: token, split, engine, restarts (see docs/trainers.md); or their variables
```

Importing this module imports verl, with torch and ray. Rows of the data set name the task as `extra_info["index"]` and may
name its `split` there (`python -m trainable_agents.prepare --for verl`).
"""

from __future__ import annotations

import logging
import uuid
from types import SimpleNamespace
from typing import Any

from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopOutput  # type: ignore[import-not-found]

from .errors import ConfigurationError
from .settings import read_settings
from .trainer_link import link_for
from .wire import Episode

_SETTINGS = ("url", "token", "split", "engine", "restarts")
_SAMPLING = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")

_logger = logging.getLogger(__name__)


class Loop(AgentLoopBase):  # type: ignore[misc]
    """Runs one episode per `run`, on the server that verl's balancer assigns (engine "router", the default), or on the engine
    that the service was started with ("service").

    Row: prompt, response, mask, logprobs, and the episode's reward as `reward_score`; `extra_fields["trainable_agents"]` holds
    the facts of its origin. An episode that failed or was aborted is run again up to `restarts` times; after that, its row
    holds one token outside the loss and reward 0, which counts in its group's mean, because verl cannot omit a row. A response
    longer than `rollout.response_length` is truncated there, as in verl's own loops. Raises `ConfigurationError` for an episode
    of several branches and for a prompt longer than `rollout.prompt_length`.
    """

    def __init__(self, *given: Any, **named: Any) -> None:
        own = {f"trainable_agents_{name}": named.pop(name) for name in _SETTINGS if name in named}
        super().__init__(*given, **named)
        self._settings = read_settings(SimpleNamespace(**own))

    async def run(self, sampling_params: dict[str, Any], **kwargs: Any) -> AgentLoopOutput:
        info = kwargs.get("extra_info") or {}
        index = info.get("index", kwargs.get("index"))
        if index is None:
            raise ConfigurationError(
                "Cannot find the task of a row: its extra_info has no index; make the data with "
                "`python -m trainable_agents.prepare --for verl`."
            )
        options = {
            "split": info.get("split") or self._settings.split,
            "sampling_params": {
                **{name: sampling_params[name] for name in _SAMPLING if sampling_params.get(name) is not None},
                "max_new_tokens": self.rollout_config.response_length,
            },
        }
        client = link_for(self._settings).client
        for tries_left in range(self._settings.restarts, -1, -1):
            episode = await self._play(client, int(index), options)
            if episode["outcome"] in ("completed", "truncated"):
                break
            why = episode["failure"]["message"] if episode["failure"] else str(episode["stop_reason"])
            rest = "playing its task anew" if tries_left > 0 else "none of its tokens are trained"
            _logger.warning("Episode %s %s: %s; %s.", episode["id"], episode["outcome"], why, rest)
        else:
            return self._output(_nothing(episode))
        rows = (await client.episode_samples(episode["id"], format="verl"))["samples"]
        if len(rows) > 1:
            raise ConfigurationError(
                f"Cannot hand verl episode {episode['id']}: it has {len(rows)} branches, and an agent loop returns one row; "
                "start the service with --history keep-reasoning."
            )
        return self._output(rows[0] if rows else _nothing(episode))

    async def _play(self, client: Any, index: int, options: dict[str, Any]) -> Episode:
        key = uuid.uuid4().hex
        if self._settings.engine == "service":
            begun = await client.start_episode(index, key=key, **options)
            return await client.ended_episode(begun["id"])
        # verl identifies a server by its address. The server counts as busy while the episode lasts.
        address, _ = await self.server_manager._acquire_server(key, prompt_ids=[], sampling_params={})
        try:
            begun = await client.start_episode(index, key=key, engine={"url": f"http://{address}"}, **options)
            return await client.ended_episode(begun["id"])
        finally:
            self.server_manager._release_server(address, request_id=key)

    def _output(self, row: dict[str, Any]) -> AgentLoopOutput:
        longest = self.rollout_config.prompt_length
        if len(row["prompt_ids"]) > longest:
            raise ConfigurationError(
                f"Cannot hand verl a prompt of {len(row['prompt_ids'])} tokens: data.max_prompt_length is {longest}, and a prompt "
                "that is cut off is not what the policy saw; raise it."
            )
        end = self.rollout_config.response_length
        facts = row["extra_fields"]
        logprobs = row["response_logprobs"]
        return AgentLoopOutput(
            prompt_ids=list(row["prompt_ids"]),
            response_ids=list(row["response_ids"])[:end],
            response_mask=list(row["response_mask"])[:end],
            response_logprobs=None if logprobs is None else list(logprobs)[:end],
            reward_score=row["reward_score"],
            num_turns=row["num_turns"],
            metrics=row["metrics"],
            # Stored under one name: verl merges these fields with the columns of the data set, whose `uid` must be kept.
            extra_fields={
                "turn_scores": list(facts.get("turn_scores") or []),
                "tool_rewards": [],
                "min_global_steps": facts.get("min_global_steps"),
                "max_global_steps": facts.get("max_global_steps"),
                "trainable_agents": facts,
            },
        )


def _nothing(episode: Episode) -> dict[str, Any]:
    """Row of an episode that trains nothing: verl requires a response, so it has one masked token."""
    return {
        "prompt_ids": [0],
        "response_ids": [0],
        "response_mask": [0],
        "response_logprobs": [0.0],
        "reward_score": 0.0,
        "num_turns": 0,
        "metrics": {},
        "extra_fields": {"episode_id": episode["id"], "outcome": episode["outcome"], "failure": episode["failure"]},
    }
