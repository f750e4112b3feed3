"""The engine gets new weights: pause the service, let the engine load a folder, report the version, go on. Synchronous.

For servers that take `/update_weights_from_disk`: `trainable-agents engine` and SGLang.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx

from .client import Client
from .errors import ServiceRefused


def load_weights(
    folder: str | Path,
    version: str | int,
    *,
    engine: str,
    service: str | None = None,
    engine_key: str | None = None,
    token: str | None = None,
    patience: float = 600.0,
) -> None:
    """The engine at `engine` (its address) loads the checkpoint in `folder`, a path that it sees, as `version`.

    Episodes in flight wait before their next turn and go on with the new weights; the service is told the version. When the
    engine refuses, it keeps its weights, the service goes on, and `ServiceRefused` is raised with the engine's own words.
    """
    asyncio.run(_load(str(Path(folder).resolve()), str(version), engine.rstrip("/"), service, engine_key, token, patience))


async def _load(
    folder: str, version: str, engine: str, service: str | None, engine_key: str | None, token: str | None, patience: float
) -> None:
    headers = {} if engine_key is None else {"authorization": f"Bearer {engine_key}"}
    async with Client(service, token=token, patience=patience) as client:
        await client.pause()
        try:
            async with httpx.AsyncClient(headers=headers, timeout=patience, trust_env=False) as http:
                answer = await http.post(
                    f"{engine}/update_weights_from_disk", json={"model_path": folder, "weight_version": version}
                )
            if not answer.is_success or answer.json().get("success") is False:
                raise ServiceRefused(
                    f"Cannot load the weights in {folder} into the engine at {engine}: it answered {answer.status_code}: "
                    f"{answer.text[:500]}",
                    status=answer.status_code,
                    code="weights-refused",
                )
            await client.report_weights(version)
        finally:
            await client.resume()
