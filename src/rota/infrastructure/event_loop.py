"""The event loop of our own processes and threads: uvloop where it is installed, else asyncio's own."""

import asyncio

try:
    from uvloop import new_event_loop
except ImportError:
    new_event_loop = asyncio.new_event_loop  # type: ignore[assignment] # any loop will do

__all__ = ["new_event_loop"]
