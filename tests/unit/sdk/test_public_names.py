import rota


def test_the_public_names_are_these() -> None:
    assert rota.__all__ == [
        "Context",
        "Fail",
        "Handle",
        "Retry",
        "RetryPolicy",
        "Rota",
        "Snooze",
        "TaskView",
        "__version__",
        "task",
    ]
    assert all(hasattr(rota, name) for name in rota.__all__)
