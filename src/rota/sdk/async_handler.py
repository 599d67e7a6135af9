"""Running a coroutine function. Apart from `handler`: a child process needs no event loop and starts without."""

import asyncio

from rota.domain.attempt import Outcome
from rota.sdk.context import Context
from rota.sdk.handler import Handler
from rota.sdk.results import outcome_of_exception, outcome_of_value


async def run_async(handler: Handler, payload: str, *, context: Context | None) -> Outcome:
    """Run it on the running loop. Only `CancelledError` passes through, and the end of what its loop has left behind:
    that comes from the garbage collector, in the middle of anything."""
    bound = handler.bind(payload, context)
    if not isinstance(bound, dict):
        return bound
    try:
        value = await handler.function(**bound)
    except (asyncio.CancelledError, GeneratorExit):
        raise
    except BaseException as exc:  # SystemExit too: it would end the loop and everybody on it
        return outcome_of_exception(exc)
    return outcome_of_value(value)
