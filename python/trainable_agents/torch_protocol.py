"""SGLang's `/generate` and the calls of a learner over HTTP, for one model in this process. Started by `torch_server`.

The paths below `/learner/` are our own, for the trainer of `trainable-agents train`. Everything in a request is checked here.
"""

from __future__ import annotations

import json
import math
import threading
import uuid
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from .errors import ConfigurationError
from .torch_learner import Learner, LossOptions, LossSequence
from .torch_sampler import Call, Sampler, Sampling

__all__ = ["Refused", "TorchServer"]

_MOST_BYTES = 2**28
"""Size limit of a request body: a step of 16 groups of 8 episodes of 4,000 tokens takes 60 MB as JSON."""


class Refused(Exception):
    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


class TorchServer:
    """`path` is the server's name of its model. `architecture` and `source` belong to a GGUF file, for adapters written as
    one."""

    def __init__(
        self,
        learner: Learner,
        *,
        path: str,
        context: int,
        rows: int = 32,
        cache_bytes: int = 2**30,
        version: str = "default",
        architecture: str | None = None,
        ends: Sequence[int] = (),
    ) -> None:
        self.learner, self.path, self.context, self.architecture = learner, path, context, architecture
        self.ends = frozenset(ends)
        self.vocabulary = int(learner.model.get_input_embeddings().weight.shape[0])
        self.sampler = Sampler(learner.model, wrapped=learner.wrapped, rows=rows, cache_bytes=cache_bytes, version=version)
        self.adapters: set[str] = set()
        self._http: ThreadingHTTPServer | None = None
        self._get: dict[str, Callable[[], Any]] = {
            "/health": lambda: None,
            "/health_generate": lambda: None,
            "/ready": self._ready,
            "/model_info": self._model_info,
            "/get_model_info": self._model_info,
            "/server_info": self._server_info,
            "/get_server_info": self._server_info,
            "/v1/loads": self._loads,
        }
        self._post: dict[str, Callable[[dict[str, Any]], Any]] = {
            "/generate": self._generate,
            "/abort_request": self._abort,
            "/pause_generation": lambda _: self._pause(True),
            "/continue_generation": lambda _: self._pause(False),
            "/flush_cache": lambda _: self._renew(self.sampler.version),
            "/update_weight_version": lambda body: self._renew(_text(body, "new_version")),
            "/load_lora_adapter": self._load_adapter,
            "/unload_lora_adapter": self._unload_adapter,
            "/learner/accumulate": self._accumulate,
            "/learner/evaluate": self._evaluate,
            "/learner/update": self._update,
            "/learner/save": self._save,
            "/learner/load": self._load,
        }

    def listen(self, port: int = 0) -> int:
        """Starts serving on 127.0.0.1, in threads. Returns the port."""
        self._http = _Listener(("127.0.0.1", port), _handler(self))
        threading.Thread(target=self._http.serve_forever, daemon=True).start()
        return int(self._http.server_address[1])

    def close(self) -> None:
        if self._http is not None:
            self._http.shutdown()
            self._http.server_close()
        self.sampler.close()

    def answer(self, method: str, path: str, body: dict[str, Any]) -> Any:
        """The reply to one request. Raises `Refused`, or a `ConfigurationError`, which is HTTP 400."""
        if method == "GET" and path in self._get:
            return self._get[path]()
        if method == "POST" and path in self._post:
            return self._post[path](body)
        raise Refused("Not Found", 404)

    def _ready(self) -> None:
        if self.sampler.is_paused:
            raise Refused("Generation is paused.", 503)

    def _model_info(self) -> dict[str, Any]:
        return {
            "model_path": self.path,
            "served_model_name": self.path,
            "tokenizer_path": self.path,
            "is_generation": True,
            "preferred_sampling_params": None,
            "weight_version": self.sampler.version,
        }

    def _server_info(self) -> dict[str, Any]:
        return {"context_length": self.context, "version": "0.5.9", "internal_states": [{}]}

    def _loads(self) -> dict[str, Any]:
        running, waiting = self.sampler.load
        return {"loads": [{"num_running_reqs": running, "num_waiting_reqs": waiting}]}

    def _generate(self, body: dict[str, Any]) -> dict[str, Any]:
        prompt = _ids(body.get("input_ids"), self.vocabulary, "input_ids")
        if not prompt:
            raise Refused("input_ids cannot be empty.")
        if len(prompt) >= self.context:
            raise Refused(
                f"The input ({len(prompt)} tokens) is longer than the model's context length ({self.context} tokens)."
            )
        if body.get("stream"):
            raise Refused("stream is not supported by this server; request the whole reply.")
        adapter = body.get("lora_path")
        if adapter is not None and adapter not in self.adapters:
            raise Refused(f"The adapter {adapter!r} is not loaded; load it with /load_lora_adapter.")
        given = self._sampling(body.get("sampling_params") or {}, self.context - len(prompt))
        call = Call(str(body.get("rid") or uuid.uuid4().hex), prompt, given, adapter)
        if not self.sampler.submit(call):
            raise Refused(f"Duplicate request ID detected: {call.rid}")
        call.ended.wait()
        if call.error is not None:
            raise Refused(f"Cannot sample: {call.error}", 500)
        meta = {
            "id": call.rid,
            "finish_reason": call.finish,
            "prompt_tokens": len(prompt),
            "completion_tokens": len(call.tokens),
            "cached_tokens": call.cached_tokens,
            "weight_version": call.weight_version,
        }
        if body.get("return_logprob"):
            meta["output_token_logprobs"] = [
                [logprob, token, None] for logprob, token in zip(call.logprobs, call.tokens, strict=True)
            ]
        return {"text": "", "output_ids": call.tokens, "meta_info": meta}

    def _sampling(self, given: Any, room: int) -> Sampling:
        if not isinstance(given, dict):
            raise Refused("sampling_params must be an object.")
        for name in (
            "stop",
            "stop_regex",
            "json_schema",
            "regex",
            "ebnf",
            "structural_tag",
            "logit_bias",
            "frequency_penalty",
            "presence_penalty",
        ):
            if given.get(name):
                raise Refused(f"{name} is not supported by this server; remove it.")
        limits = {"temperature": (0, math.inf), "top_p": (1e-9, 1), "min_p": (0, 1), "repetition_penalty": (1e-9, 2)}
        numbers = {
            name: _number(given.get(name, 0 if name == "min_p" else 1), name, *within) for name, within in limits.items()
        }
        most = given.get("max_new_tokens", 128)
        ends = (
            frozenset()
            if given.get("ignore_eos")
            else self.ends | frozenset(_ids(given.get("stop_token_ids") or [], self.vocabulary, "stop_token_ids"))
        )
        seed = given.get("sampling_seed")
        return Sampling(
            max_new_tokens=min(room, room if most is None else int(_number(most, "max_new_tokens", 1, 2**31))),
            top_k=int(_number(given.get("top_k", -1), "top_k", -1, 2**31)),
            stop_token_ids=ends,
            sampling_seed=None if seed is None else int(_number(seed, "sampling_seed", 0, 2**63 - 1)),
            **numbers,
        )

    def _abort(self, body: dict[str, Any]) -> None:
        self.sampler.abort(None if body.get("abort_all") else str(body.get("rid")))

    def _pause(self, paused: bool) -> dict[str, Any]:
        self.sampler.pause(paused)
        return {"status": "ok", "message": ""}

    def _renew(self, version: str) -> dict[str, Any]:
        with self.sampler.weights:
            self.sampler.renew(version)
        return {"success": True, "message": "", "new_version": version}

    def _load_adapter(self, body: dict[str, Any]) -> dict[str, Any]:
        name, folder = _text(body, "lora_name"), _text(body, "lora_path")
        if name == "default" or name in self.adapters:
            raise Refused(f"An adapter of the name {name!r} exists; unload it, or choose another name.")
        with self.sampler.weights:
            try:
                self.learner.wrapped.load_adapter(folder, name)
            except (OSError, ValueError, RuntimeError, KeyError) as error:
                raise Refused(f"Cannot load the adapter in {folder!r}: {error}") from error
        self.adapters.add(name)
        return {"success": True, "loaded_adapters": sorted(self.adapters)}

    def _unload_adapter(self, body: dict[str, Any]) -> dict[str, Any]:
        name = _text(body, "lora_name")
        if name not in self.adapters:
            raise Refused(f"The adapter {name!r} is not loaded.")
        with self.sampler.weights:
            self.adapters.discard(name)
            self.learner.wrapped.delete_adapter(name)
            self.sampler.renew(self.sampler.version)
        return {"success": True, "loaded_adapters": sorted(self.adapters)}

    def _accumulate(self, body: dict[str, Any]) -> dict[str, Any]:
        sequences = [self._sequence(one) for one in _list(body, "sequences")]
        loss = body.get("loss") or {}
        clip = loss.get("clip")
        options = LossOptions(
            clip_low=None if clip is None else _number(clip.get("low"), "clip", 0, math.inf),
            clip_high=None if clip is None else _number(clip.get("high"), "clip", 0, math.inf),
            kl=_number(loss.get("kl", 0), "kl", 0, math.inf),
            entropy=_number(loss.get("entropy", 0), "entropy", 0, math.inf),
        )
        if any(one.sampled_logprobs is None for one in sequences) and clip is not None:
            raise Refused("A clipped loss needs sampled_logprobs.")
        if any(one.reference_logprobs is None for one in sequences) and options.kl > 0:
            raise Refused("A distance to the reference needs reference_logprobs.")
        with self.sampler.weights:
            return self.learner.accumulate(sequences, options)

    def _evaluate(self, body: dict[str, Any]) -> dict[str, Any]:
        sequences = [self._sequence(one) for one in _list(body, "sequences")]
        with self.sampler.weights:
            return {"sequences": self.learner.evaluate(sequences, base=bool(body.get("base")))}

    def _sequence(self, given: Any) -> LossSequence:
        if not isinstance(given, dict):
            raise Refused("A sequence must be an object.")
        tokens = _ids(given.get("tokens"), self.vocabulary, "tokens")
        targets = _ids(given.get("targets"), len(tokens), "targets")
        if any(later <= earlier for earlier, later in zip([0, *targets], targets, strict=False)):
            raise Refused("targets must be ascending places after the first token.")

        def aligned(name: str) -> list[float] | None:
            values = given.get(name)
            if values is None:
                return None
            if not isinstance(values, list) or len(values) != len(targets):
                raise Refused(f"{name} must have one number for each target.")
            return [_number(value, name, -math.inf, math.inf) for value in values]

        ones = [1.0] * len(targets)
        return LossSequence(
            tokens,
            targets,
            weights=aligned("weights") or ones,
            advantages=aligned("advantages") or ones,
            sampled_logprobs=aligned("sampled_logprobs"),
            reference_logprobs=aligned("reference_logprobs"),
        )

    def _update(self, body: dict[str, Any]) -> dict[str, Any]:
        most = body.get("max_gradient_norm")
        with self.sampler.weights:
            norm = self.learner.update(
                _number(body.get("learning_rate"), "learning_rate", 0, math.inf),
                None if most is None else _number(most, "max_gradient_norm", 0, math.inf),
                _number(body.get("weight_decay", 0), "weight_decay", 0, math.inf),
            )
        return {"gradient_norm": norm if math.isfinite(norm) else None}

    def _save(self, body: dict[str, Any]) -> dict[str, Any]:
        folder = Path(_text(body, "folder"))
        try:
            with self.sampler.weights:
                self.learner.save(folder)
            if self.architecture is not None:
                from .gguf_model import write_adapter

                write_adapter(folder, folder / "adapter.gguf", architecture=self.architecture)
        except OSError as error:
            raise Refused(f"Cannot write the checkpoint to {folder}: {error}", 507) from error
        return {"success": True}

    def _load(self, body: dict[str, Any]) -> dict[str, Any]:
        with self.sampler.weights:
            self.learner.load(Path(_text(body, "folder")))
            self.sampler.renew(self.sampler.version)
        return {"success": True}


class _Listener(ThreadingHTTPServer):
    daemon_threads = True
    # A group connects at once.
    request_queue_size = 1024


def _handler(server: TorchServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # Headers and body leave in one packet each; without this the second waits for the first to be acknowledged.
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            if self._is_local():
                self._answer("GET", {})

        def do_POST(self) -> None:
            if not self._is_local():
                return
            try:
                length = int(self.headers.get("content-length", ""))
            except ValueError:
                return self._refuse(411, "A body needs its content-length.")
            if not 0 <= length <= _MOST_BYTES:
                return self._refuse(413, f"The body has {length} bytes, at most {_MOST_BYTES} are read.")
            try:
                body = json.loads(self.rfile.read(length) or b"{}")
            except (ValueError, RecursionError) as error:
                return self._refuse(400, f"The body is not JSON: {error}")
            if not isinstance(body, dict):
                return self._refuse(400, "The body must be an object.")
            self._answer("POST", body)

        def _is_local(self) -> bool:
            """Refuses requests from web pages in a browser on this machine: their calls could write files or stop a
            training."""
            host = urlsplit(f"//{self.headers.get('host', '127.0.0.1')}").hostname
            if self.headers.get("origin") is None and host in ("127.0.0.1", "localhost"):
                return True
            self._refuse(403, "Only programs on this machine are answered, at 127.0.0.1.")
            return False

        def _answer(self, method: str, body: dict[str, Any]) -> None:
            try:
                reply = server.answer(method, self.path.split("?")[0], body)
            except Refused as error:
                return self._send(error.status, {"error": {"message": str(error)}})
            except ConfigurationError as error:
                return self._send(400, {"error": {"message": str(error)}})
            except Exception as error:
                return self._send(500, {"error": {"message": f"{type(error).__name__}: {error}"}})
            self._send(200, reply)

        def _refuse(self, status: int, message: str) -> None:
            # The rest of the body is not read, so the connection cannot be reused.
            self.close_connection = True
            self._send(status, {"error": {"message": message}})

        def _send(self, status: int, reply: Any) -> None:
            content = b"" if reply is None else json.dumps(reply).encode()
            try:
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)
            except ConnectionError:
                self.close_connection = True

        def log_message(self, *_: Any) -> None:
            pass

    return Handler


def _ids(given: Any, below: int, name: str) -> list[int]:
    if not isinstance(given, list) or any(type(one) is not int or not 0 <= one < below for one in given):
        raise Refused(f"{name} must be a list of integers from 0 to {below - 1}.")
    return given


def _number(given: Any, name: str, least: float, most: float) -> float:
    if isinstance(given, bool) or not isinstance(given, (int, float)) or math.isnan(given) or not least <= given <= most:
        raise Refused(f"{name} must be a number from {least} to {most}, got {json.dumps(given)[:40]}.")
    return given


def _text(body: dict[str, Any], name: str) -> str:
    value = body.get(name)
    if not isinstance(value, str) or value == "":
        raise Refused(f"{name} must be a string.")
    return value


def _list(body: dict[str, Any], name: str) -> list[Any]:
    value = body.get(name)
    if not isinstance(value, list):
        raise Refused(f"{name} must be a list.")
    return value
