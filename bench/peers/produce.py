"""Create tasks of a peer, in its own environment: `python -m bench.peers.produce MODULE TASKS`.

Says when it began, in seconds since 1970, and at the end how many seconds of CPU it took, its start left out."""

import importlib
import sys
import time

app = importlib.import_module(sys.argv[1])
print(time.time(), flush=True)  # the clock starts when all is imported
spent = time.process_time()
app.produce(int(sys.argv[2]))
print(time.process_time() - spent, flush=True)
