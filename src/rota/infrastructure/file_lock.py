"""A lock between the processes of one machine. The kernel frees it when its process ends, however that comes."""

import fcntl
import os
from pathlib import Path


def try_lock(path: Path) -> int | None:
    """Lock a file, which is made if it is not there: the descriptor that holds the lock, or None if another has it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor
