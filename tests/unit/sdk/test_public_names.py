import rota


def test_the_public_names_are_these() -> None:
    assert rota.__all__ == [
        "AsyncClient",
        "Client",
        "Context",
        "Defer",
        "Fail",
        "Handle",
        "Retry",
        "RetryPolicy",
        "Rota",
        "Snooze",
        "TaskView",
        "__version__",
        "cron",
        "task",
    ]
    assert all(hasattr(rota, name) for name in rota.__all__)


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    assert not hasattr(rota, "client_that_nobody_wrote")
