"""Create tasks of a peer, in its own environment: `python -m bench.peers.produce MODULE TASKS`."""

import importlib
import sys
import time

app = importlib.import_module(sys.argv[1])
print(time.time(), flush=True)  # the clock starts when all is imported
app.produce(int(sys.argv[2]))
