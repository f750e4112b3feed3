"""Runs `trainable-agents engine` with a small model on this machine while a check runs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from rollout_service import MAIN, ROOT  # noqa: E402

MODEL = ROOT / "models" / "bookshop-1m"


class EmbeddedEngine:
    def __init__(self, *flags: str) -> None:
        command = ["node", str(MAIN), "engine", "--model", str(MODEL), "--port", "0", "--threads", "1", *flags]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert self._process.stdout is not None
        said = ""
        for line in self._process.stdout:
            said += line
            if found := re.search(r"http://[\d.]+:\d+", line):
                self.url = found.group(0)
                return
        raise AssertionError(f"The engine did not start: {said}")

    def close(self) -> None:
        self._process.terminate()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()
