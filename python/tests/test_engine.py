"""Tests of `load_weights` against the real service, with a protocol front as the engine."""

from __future__ import annotations

import json
import sys
import tempfile
import threading
import unittest
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import httpx  # noqa: E402
from rollout_service import RolloutService  # noqa: E402
from trainable_agents.engine import load_weights  # noqa: E402
from trainable_agents.errors import ServiceRefused  # noqa: E402


class LoadWeights(unittest.TestCase):
    def setUp(self) -> None:
        service = RolloutService()
        self.addCleanup(service.close)
        self.service = service.url
        self.answer: tuple[int, dict[str, Any]] = (200, {"success": True})
        self.seen: list[Any] = []
        test = self

        class Engine(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                test.seen.append((self.path, body, self.headers["authorization"], test.info()["status"]))
                status, answer = test.answer
                self.send_response(status)
                self.end_headers()
                self.wfile.write(json.dumps(answer).encode())

            def log_message(self, *_: Any) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Engine)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        self.engine = f"http://127.0.0.1:{server.server_port}"

    def info(self) -> dict[str, Any]:
        return dict(httpx.get(f"{self.service}/v1/info", trust_env=False).json())

    def test_saves_loads_while_the_service_is_paused_reports_and_goes_on(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder) / "7"
            load_weights(place, 7, engine=self.engine, save=Path.mkdir, service=self.service, engine_key="k")
            self.assertTrue(place.is_dir())
            expected = {"model_path": str(place.resolve()), "weight_version": "7"}
        self.assertEqual(self.seen, [("/update_weights_from_disk", expected, "Bearer k", "paused")])
        self.assertEqual((self.info()["status"], self.info()["weight_version"]), ("open", "7"))

    def test_an_engine_that_refuses_keeps_its_version_and_the_service_goes_on(self) -> None:
        for answer in ((400, {"message": "no such tensor"}), (200, {"success": False, "message": "no such tensor"})):
            self.answer = answer
            with self.assertRaisesRegex(ServiceRefused, "no such tensor"):
                load_weights("nowhere", 8, engine=self.engine, service=self.service)
            self.assertEqual((self.info()["status"], self.info()["weight_version"]), ("open", None))


if __name__ == "__main__":
    unittest.main()
