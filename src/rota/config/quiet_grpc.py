"""The core of the gRPC library writes lines of its own to standard error, in no format of ours. What matters of them
reaches us as the status of a call."""

import os


def quiet_grpc() -> None:
    """To be called before the library is imported; who has set its variable is left alone."""
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
