"""The same environment for verifiers 0.4."""

from sums_v1.taskset import SumsTaskset

__all__ = ["SumsTaskset"]
