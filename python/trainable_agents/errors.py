"""What can go wrong between a trainer and the service. Every message ends in what to do about it."""

from __future__ import annotations


class TrainableAgentsError(Exception):
    """The root of all errors of this package."""


class ConfigurationError(TrainableAgentsError):
    """A setting of the trainer or of this package that cannot work. Asking again changes nothing."""


class RowChanged(TrainableAgentsError):
    """A row does not hold what was sampled, or nothing in it can prove that it does."""


class ServiceUnreachable(TrainableAgentsError):
    """The service did not answer, or was too busy, for as long as the client's patience lasts."""


class ServiceRefused(TrainableAgentsError):
    """The service answered that it will not. `code` is stable; the message is the service's own and names the remedy."""

    def __init__(self, message: str, *, status: int, code: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


class Unauthorized(ServiceRefused):
    """The token is missing or wrong."""


class BadRequest(ServiceRefused):
    """The service cannot read the request, or has no such task, split or engine."""


class NotFound(ServiceRefused):
    """The service has never heard of it, or has long forgotten it."""


class KeyReused(ServiceRefused):
    """The idempotency key came before with another body."""


class NotEnded(ServiceRefused):
    """Samples were asked for before the episode had ended."""


class BatchOutOfOrder(ServiceRefused):
    """A batch was asked for before the one ahead of it."""


def refused(message: str, *, status: int, code: str) -> ServiceRefused:
    """The error that fits the service's answer."""
    kinds: dict[str, type[ServiceRefused]] = {
        "unauthorized": Unauthorized,
        "bad-request": BadRequest,
        "not-found": NotFound,
        "key-reused": KeyReused,
        "not-ended": NotEnded,
        "batch-out-of-order": BatchOutOfOrder,
    }
    return kinds.get(code, ServiceRefused)(message, status=status, code=code)
