"""Worlds for openenv's own server, each a session of a WebSocket: a number to guess (typed actions), optionally with its own tasks or without a reward, and a shelf of boxes (MCP tools). Only the seed or the task determines the world. GET /verify counts sessions, so that a test can find unclosed ones.

    WORLD=guess|boxes|tasks|silent SESSIONS=16 python -m uvicorn openenv_worlds:app --port 8000
"""

import os
import random
from typing import Any, Optional

from fastmcp import FastMCP
from openenv.core.env_server.http_server import create_fastapi_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.mcp_environment import MCPEnvironment
from openenv.core.env_server.mcp_types import CallToolAction, CallToolObservation
from openenv.core.env_server.types import Action, Observation, State
from pydantic import Field

counts = {"made": 0, "closed": 0}


class GuessAction(Action):
    """Guesses the number."""

    guess: int = Field(..., ge=1, le=1000, description="A number from 1 to 1000")


class GuessObservation(Observation):
    message: str = Field(default="")
    tries: int = Field(default=0)


class Guess(Environment):
    """Each step gives a reward; the right number ends the episode with 1."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self) -> None:
        super().__init__()
        counts["made"] += 1
        self._state = State()
        self._number = 0

    def reset(self, seed: Optional[int] = None, episode_id: Optional[str] = None, **_: Any) -> GuessObservation:
        self._state = State(episode_id=episode_id, step_count=0)
        self._number = random.Random(seed).randint(1, 8)
        return GuessObservation(message="Guess a number from 1 to 8.")

    def step(self, action: GuessAction, timeout_s: Optional[float] = None, **_: Any) -> GuessObservation:
        self._state.step_count += 1
        tries = self._state.step_count
        if action.guess == 999:
            raise RuntimeError("the world broke")
        if action.guess == self._number:
            return GuessObservation(message="Right.", tries=tries, reward=1.0, done=True)
        hint = "Too low." if action.guess < self._number else "Too high."
        return GuessObservation(message=hint, tries=tries, reward=-0.125)

    @property
    def state(self) -> State:
        return self._state

    def close(self) -> None:
        counts["closed"] += 1


class GuessTask(Guess):
    """The number belongs to a task that the server lists; the metadata state how far the last guess was off."""

    _sizes = {"train": 24, "test": 8}

    def list_splits(self) -> list:
        return list(self._sizes)

    def num_tasks(self, split: str) -> int:
        return self._sizes[split]

    def list_tasks(self, split: str) -> list:
        return self.get_task_range(split)

    def get_task(self, split: str, index: int) -> dict:
        if not 0 <= index < self._sizes[split]:
            raise IndexError(index)
        return {"id": f"{split}-{index}", "index": index}

    def get_task_range(self, split: str, start: Optional[int] = None, stop: Optional[int] = None) -> list:
        return [self.get_task(split, index) for index in range(self._sizes[split])[start:stop]]

    def reset(self, split: str = "", index: int = -1, episode_id: Optional[str] = None, **_: Any) -> GuessObservation:
        self.get_task(split, index)
        first = super().reset(seed=1000 * len(split) + index, episode_id=episode_id)
        return first.model_copy(update={"metadata": {"message": f"Task {split}-{index}."}})

    def step(self, action: GuessAction, timeout_s: Optional[float] = None, **_: Any) -> GuessObservation:
        off = abs(action.guess - self._number)
        return super().step(action).model_copy(update={"metadata": {"message": f"Off by {off}."}})


class Silent(Guess):
    """Never gives a reward."""

    def step(self, action: GuessAction, timeout_s: Optional[float] = None, **_: Any) -> GuessObservation:
        return super().step(action).model_copy(update={"reward": None})


class Boxes(MCPEnvironment):
    """Two MCP tools. Opening the right box earns 1 but does not end the episode: such worlds end when the policy decides to."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self) -> None:
        counts["made"] += 1
        server = FastMCP("boxes")
        world = self

        @server.tool()
        def open_box(number: int) -> str:
            """Opens a box from 1 to 4."""
            if not 1 <= number <= 4:
                raise ValueError(f"there is no box {number}")
            world.opened += 1
            return "a coin" if number == world.number else "nothing"

        @server.tool()
        def count_opened() -> dict:
            """Number of boxes opened so far."""
            return {"opened": world.opened}

        super().__init__(server)
        self.opened = 0
        self.number = 0
        self._state = State()

    def reset(self, seed: Optional[int] = None, episode_id: Optional[str] = None, **_: Any) -> Observation:
        self._state = State(episode_id=episode_id, step_count=0)
        self.opened = 0
        self.number = random.Random(seed).randint(1, 4)
        return Observation(done=False, reward=None, metadata={"instruction": "Find the coin."})

    def _scored(self, action: Any, observation: Observation) -> Observation:
        if isinstance(action, CallToolAction) and isinstance(observation, CallToolObservation):
            self._state.step_count += 1
            found = "a coin" in str(observation.result)
            return observation.model_copy(update={"reward": 1.0 if found else 0.0, "done": found})
        return observation

    async def step_async(self, action: Any, timeout_s: Optional[float] = None, **rest: Any) -> Observation:
        return self._scored(action, await super().step_async(action, timeout_s=timeout_s, **rest))

    def _step_impl(self, action: Any, timeout_s: Optional[float] = None, **_: Any) -> Observation:
        return Observation(metadata={"error": "only tools are known"})

    @property
    def state(self) -> State:
        return self._state

    def close(self) -> None:
        counts["closed"] += 1
        super().close()


_sessions = int(os.environ.get("SESSIONS", "16"))
_world = os.environ.get("WORLD", "guess")
if _world == "boxes":
    app = create_fastapi_app(Boxes, CallToolAction, CallToolObservation, max_concurrent_envs=_sessions)
else:
    _typed = {"guess": Guess, "tasks": GuessTask, "silent": Silent}[_world]
    app = create_fastapi_app(_typed, GuessAction, GuessObservation, max_concurrent_envs=_sessions)


@app.get("/verify")
def verify() -> dict:
    return dict(counts)
