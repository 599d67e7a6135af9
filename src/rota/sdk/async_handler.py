"""Running a coroutine function. Apart from `handler`: a child process needs no event loop and starts without."""

import asyncio

from rota.domain.attempt import Outcome
from rota.sdk.context import Context
from rota.sdk.handler import Handler
from rota.sdk.results import outcome_of_exception, outcome_of_value


async def run_async(handler: Handler, payload: str, *, context: Context | None) -> Outcome:
    """Run it on the running loop. Only `CancelledError` passes through."""
    bound = handler.bind(payload, context)
    if not isinstance(bound, dict):
        return bound
    try:
        value = await handler.function(**bound)
    except asyncio.CancelledError:
        raise
    except BaseException as exc:  # SystemExit too: it would end the loop and everybody on it
        return outcome_of_exception(exc)
    return outcome_of_value(value)
