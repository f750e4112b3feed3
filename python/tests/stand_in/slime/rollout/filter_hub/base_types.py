"""Dynamic sampling: the verdict on a group, and counts of dropped groups by reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass
class DynamicFilterOutput:
    keep: bool
    reason: str | None = None
    keep_when_insufficient: bool = False


def call_dynamic_filter(function: Callable[..., Any] | None, *given: Any, **named: Any) -> DynamicFilterOutput:
    if function is None:
        return DynamicFilterOutput(keep=True)
    output = function(*given, **named)
    return output if isinstance(output, DynamicFilterOutput) else DynamicFilterOutput(keep=output)


def should_drop_dynamic_filter_output(output: DynamicFilterOutput, *, remaining_batch_size: int, target_data_size: int) -> bool:
    is_needed = output.keep_when_insufficient and remaining_batch_size <= target_data_size
    return not output.keep and not is_needed


class MetricGatherer:
    def __init__(self) -> None:
        self._dropped: Counter[str] = Counter()

    def on_dynamic_filter_drop(self, reason: str | None) -> None:
        if reason:
            self._dropped[reason] += 1

    def collect(self) -> dict[str, int]:
        return {f"rollout/dynamic_filter/drop_{reason}": count for reason, count in self._dropped.items()}
