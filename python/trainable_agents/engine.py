"""Updates the engine's weights: saves them, pauses the service, lets the engine load them, reports the version, and resumes.
Synchronous.

For servers that take `/update_weights_from_disk`: `trainable-agents engine` and SGLang.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx

from .client import Client
from .errors import ServiceRefused


def load_weights(
    folder: str | Path,
    version: str | int,
    *,
    engine: str | Sequence[str],
    save: Callable[[Path], Any] | None = None,
    training: str | None = None,
    service: str | None = None,
    engine_key: str | None = None,
    token: str | None = None,
    patience: float = 600.0,
    mismatch: Mapping[str, float] | None = None,
) -> None:
    """The engine at `engine` (its address, or those of several) loads the checkpoint in `folder`, a path that it sees, as `version`.

    `save` writes the checkpoint first (`model.save_pretrained`), while episodes continue; default: it already exists. Episodes
    in flight wait before their next turn and continue with the new weights. The version is reported to the service, for the
    producers of `training` if it is given. If an engine refuses, it keeps its weights, the service resumes without a new
    version, and `ServiceRefused` is raised with the engine's message. `mismatch` is that of `Client.report_weights`.
    """
    if save is not None:
        save(Path(folder))
    engines = [engine] if isinstance(engine, str) else list(engine)
    task = _load(str(Path(folder).resolve()), str(version), engines, training, service, engine_key, token, patience, mismatch)
    asyncio.run(task)


async def _load(
    folder: str,
    version: str,
    engines: list[str],
    training: str | None,
    service: str | None,
    engine_key: str | None,
    token: str | None,
    patience: float,
    mismatch: Mapping[str, float] | None,
) -> None:
    headers = {} if engine_key is None else {"authorization": f"Bearer {engine_key}"}
    async with Client(service, token=token, patience=patience) as client:
        await client.pause()
        try:
            async with httpx.AsyncClient(headers=headers, timeout=patience, trust_env=False) as http:
                body = {"model_path": folder, "weight_version": version}
                urls = [engine.rstrip("/") for engine in engines]
                answers = await asyncio.gather(*(http.post(f"{url}/update_weights_from_disk", json=body) for url in urls))
            for url, answer in zip(urls, answers):
                if not answer.is_success or answer.json().get("success") is False:
                    raise ServiceRefused(
                        f"Cannot load the weights in {folder} into the engine at {url}: it answered {answer.status_code}: "
                        f"{answer.text[:500]}",
                        status=answer.status_code,
                        code="weights-refused",
                    )
            await client.report_weights(version, training, mismatch=mismatch)
        finally:
            await client.resume()
