"""Writes the prompt file of a split: one line {"index": i, "metadata": {...}} for each task of the service.

`python -m trainable_agents.prepare --url http://127.0.0.1:8800 --split train --output retail_train_tasks.jsonl`, then
--prompt-data with --input-key index. With --for verl, it writes rows in the form of verl's data sets. Requires only the
standard library. The split is stored in the metadata, so that later requests to the service use the split that was prepared.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

DEFAULT_URL = "http://127.0.0.1:8800"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m trainable_agents.prepare", description=__doc__)
    parser.add_argument(
        "--url",
        default=os.environ.get("TRAINABLE_AGENTS_URL") or DEFAULT_URL,
        help="the service; default: TRAINABLE_AGENTS_URL, or the port of this machine that it has by default",
    )
    parser.add_argument("--split", default=None, help="default: the service's own")
    parser.add_argument("--output", type=Path, required=True, help="the file to write; its folder is made")
    parser.add_argument("--for", dest="trainer", choices=("slime", "verl"), default="slime", help="default: slime")
    given = parser.parse_args(argv)
    try:
        info = _info(given.url.rstrip("/"), os.environ.get("TRAINABLE_AGENTS_TOKEN") or None)
        split, count = _choose(info, given.split)
        given.output.parent.mkdir(parents=True, exist_ok=True)
        with given.output.open("w", encoding="utf-8") as file:
            make = verl_lines if given.trainer == "verl" else lines
            file.writelines(make(info["environment"], split, count))
    except (_Problem, OSError) as problem:
        print(problem, file=sys.stderr)
        return 2
    print(f"Wrote {count} tasks of {info['environment']} ({split}) to {given.output}")
    return 0


def lines(environment: str, split: str, count: int) -> Iterator[str]:
    for index in range(count):
        yield json.dumps({"index": index, "metadata": {"environment": environment, "split": split}}) + "\n"


def verl_lines(environment: str, split: str, count: int) -> Iterator[str]:
    """The prompt is only for verl's tables: the policy reads the environment's own."""
    for index in range(count):
        row = {
            "prompt": [{"role": "user", "content": f"{environment} {split} {index}"}],
            "agent_name": "trainable_agents",
            "data_source": environment,
            "reward_model": {"style": "rule", "ground_truth": ""},
            "extra_info": {"index": index, "split": split},
        }
        yield json.dumps(row) + "\n"


class _Problem(Exception):
    pass


def _info(url: str, token: str | None) -> dict[str, Any]:
    # Ignores the proxies of the environment, like the client.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        request = urllib.request.Request(
            f"{url}/v1/info", headers={} if token is None else {"authorization": f"Bearer {token}"}
        )
        with opener.open(request, timeout=30) as answer:
            info = json.load(answer)
    except urllib.error.HTTPError as error:
        remedy = "set TRAINABLE_AGENTS_TOKEN" if error.code == 401 else "correct --url"
        raise _Problem(f"Cannot ask {url} for its tasks: it answered {error.code}; {remedy}.") from None
    except (urllib.error.URLError, ValueError, OSError) as error:
        raise _Problem(f"Cannot ask {url} for its tasks: {error}; start `trainable-agents serve`, or correct --url.") from None
    if not isinstance(info, dict) or info.get("name") != "trainable-agents":
        raise _Problem(f"Cannot ask {url} for its tasks: this is not the rollout service; correct --url.")
    return info


def _choose(info: dict[str, Any], wanted: str | None) -> tuple[str, int]:
    split = wanted if wanted is not None else info["default_split"]
    count = info["splits"].get(split)
    if count is None:
        raise _Problem(
            f'Cannot find the split "{split}": {info["environment"]} has {", ".join(info["splits"])}; pass one of them as --split.'
        )
    return split, count


if __name__ == "__main__":
    sys.exit(main())
