"""A whole cluster in one process, on virtual time, with everything that can go wrong drawn from a seed.

Real: the scheduler, the worker, submitting and steering, as they run in production. Simulated: time, the store and the
coordinator (the memory adapters), the executor, and what lies between them (`border.py`). The same seed gives the same
run, to the last line of its history, which the stand-alone checker judges.
"""
