"""The real service for tests: `trainable-agents serve` on this machine, with the bookshop and its scripted expert."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent.parent
MAIN = ROOT / "dist" / "cli" / "main.js"


class RolloutService:
    """A service that starts when it is created. `kill` ends it as the system would; `start` resumes it in the same folder on
    the same port."""

    def __init__(self, *flags: str, token: str | None = None) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="service-")
        self.out = Path(self._folder.name) / "run"
        self._flags = flags
        self._env = dict(os.environ) if token is None else {**os.environ, "SERVICE_TOKEN": token}
        self._token = [] if token is None else ["--token-env", "SERVICE_TOKEN"]
        self._listen = "127.0.0.1:0"
        self.url = ""
        self.start()

    def start(self) -> None:
        command = ["node", str(MAIN), "serve", "--engine", "expert", "--listen", self._listen, "--out", str(self.out)]
        self._process = subprocess.Popen(
            [*command, *self._token, *self._flags],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self._env,
        )
        assert self._process.stdout is not None and self._process.stderr is not None
        self.url = self._process.stdout.readline().strip()
        if not self.url:
            raise AssertionError(f"The service did not start: {self._process.stderr.read()}")
        self._listen = self.url.removeprefix("http://")

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdout, self._process.stderr):
            assert stream is not None
            stream.close()

    def close(self) -> None:
        self.kill()
        self._folder.cleanup()

    def lines(self, name: str) -> list[dict[str, Any]]:
        """The records in a file of its folder, without a line that is still being written."""
        path = self.out / name
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        return [json.loads(line) for line in text.split("\n")[:-1]]
