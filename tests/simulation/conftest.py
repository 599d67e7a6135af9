"""What all plays of the simulation share."""

from collections.abc import Iterator

import pytest
import structlog


@pytest.fixture(autouse=True)
def silence() -> Iterator[None]:
    """Formatting logs that nobody reads would take a third of the time."""
    before = structlog.get_config()["wrapper_class"]
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    yield
    structlog.configure(wrapper_class=before)
