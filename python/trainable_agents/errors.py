"""Errors between a trainer and the service. Every message ends with the remedy."""

from __future__ import annotations


class TrainableAgentsError(Exception):
    """Base class of all errors of this package."""


class ConfigurationError(TrainableAgentsError):
    """A setting of the trainer or of this package that cannot work. Retrying does not help."""


class RowChanged(TrainableAgentsError):
    """A row does not hold what was sampled, or nothing in it can prove that it does."""


class ServiceUnreachable(TrainableAgentsError):
    """The service did not answer, or was too busy, for as long as the client's patience lasts."""


class ServiceRefused(TrainableAgentsError):
    """The service refused the request. `code` is stable; the message is the service's own and names the remedy."""

    def __init__(self, message: str, *, status: int, code: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


class Unauthorized(ServiceRefused):
    """The token is missing or wrong."""


class BadRequest(ServiceRefused):
    """The service cannot read the request, or has no such task, split or engine."""


class NotFound(ServiceRefused):
    """The service does not know the object, or no longer does."""


class KeyReused(ServiceRefused):
    """The idempotency key was used before with another body."""


class NotEnded(ServiceRefused):
    """Samples were requested before the episode had ended."""


class BatchOutOfOrder(ServiceRefused):
    """A batch was requested before the preceding one."""


def refused(message: str, *, status: int, code: str) -> ServiceRefused:
    """The error that corresponds to the service's answer."""
    kinds: dict[str, type[ServiceRefused]] = {
        "unauthorized": Unauthorized,
        "bad-request": BadRequest,
        "not-found": NotFound,
        "key-reused": KeyReused,
        "not-ended": NotEnded,
        "batch-out-of-order": BatchOutOfOrder,
    }
    return kinds.get(code, ServiceRefused)(message, status=status, code=code)
