import pytest

import rota


def test_the_public_names_are_these() -> None:
    assert rota.__all__ == [
        "AsyncClient",
        "Client",
        "ConfigError",
        "ConflictError",
        "Context",
        "Defer",
        "DeniedError",
        "Fail",
        "Handle",
        "InvalidError",
        "LockLostError",
        "NotFoundError",
        "RateLimitedError",
        "Retry",
        "RetryPolicy",
        "Rota",
        "RotaError",
        "Snooze",
        "TaskView",
        "UnauthenticatedError",
        "UnavailableError",
        "__version__",
        "cron",
        "task",
    ]
    assert all(hasattr(rota, name) for name in rota.__all__)
    assert set(rota.__all__) <= set(dir(rota))


def test_what_is_raised_has_a_public_name() -> None:
    with pytest.raises(rota.InvalidError):
        rota.RetryPolicy(max_retries=-1)
    assert issubclass(rota.InvalidError, rota.RotaError)


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    assert not hasattr(rota, "client_that_nobody_wrote")
