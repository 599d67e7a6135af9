"""Say once what happens when a test needs a server this machine does not have.

On a laptop the test is skipped, visibly. With `CI=true` it fails: a green run there means every server was tested.
"""

import os

import pytest

from tests.support.servers.binaries import SERVERS


def require_server(name: str) -> None:
    """Skip the calling test or fixture, or fail it in CI, unless the programs of this server are found."""
    missing = SERVERS[name].list_missing()
    if not missing:
        return
    reason = f"{', '.join(missing)} not found: install it or run make test as root"
    if os.environ.get("CI") == "true":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)
