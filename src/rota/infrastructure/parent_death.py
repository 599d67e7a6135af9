"""A process that ends with the one that started it, however that one ends.

Linux alone can promise it. Elsewhere only a parent that is gone already is noticed.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1

# Found when this is imported: between a fork and an exec, where it may be called, nothing should be loaded.
_prctl = ctypes.CDLL(None).prctl if sys.platform == "linux" else None


def ask_for_signal(number: signal.Signals, *, parent: int) -> None:
    """Have the kernel send this process a signal when its parent dies. It outlasts an exec, and is not inherited.

    The kernel watches the thread that has forked, not the process: it must be one that lives as long as its process.
    """
    if sys.platform == "linux" and _prctl is not None:
        _prctl(PR_SET_PDEATHSIG, int(number))
    if os.getppid() != parent:
        os._exit(1)  # it died before we asked
