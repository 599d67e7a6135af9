"""`@rota.task`, `@rota.cron`: a plain function with what Rota must know to run it. Decorating only notes that down."""

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Generic, Literal, ParamSpec, TypedDict, TypeVar, Unpack

from rota.domain.checks import check_name, check_number, check_text, tidy_text
from rota.domain.durations import parse_duration
from rota.domain.errors import InvalidError
from rota.domain.priority import parse_priority
from rota.domain.retry import check_matchers
from rota.sdk.control import Duration

if TYPE_CHECKING:
    from rota.domain.schedule import Schedule

P = ParamSpec("P")
R = TypeVar("R")

MAX_DESCRIPTION = 2000
Isolation = Literal["process", "thread"]


class TaskOptions(TypedDict, total=False):
    """What `@rota.task` takes; what is left out comes from the settings."""

    timeout: Duration
    retries: int
    retry_delay: Duration
    retry_on: Sequence[str]
    give_up_on: Sequence[str]
    total_timeout: Duration
    priority: int | str
    max_concurrent: int
    rate_per_second: float
    isolation: Isolation
    name: str
    description: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskDefinition:
    """The options, checked. None: not said."""

    type: str
    timeout: timedelta | None = None
    retries: int | None = None
    retry_delay: timedelta | None = None
    retry_on: tuple[str, ...] = ()
    give_up_on: tuple[str, ...] = ()
    total_timeout: timedelta | None = None
    priority: int | None = None
    max_concurrent: int | None = None
    rate_per_second: float | None = None
    isolation: Isolation = "process"
    name: str = ""
    description: str = ""
    schedule: "Schedule | None" = None


class TaskFunction(Generic[P, R]):
    """A function that Rota can run. It is still the function: call it, and it runs here and now."""

    __name__: str
    __qualname__: str

    def __init__(self, function: Callable[P, R], definition: TaskDefinition) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self.definition = definition
        self.is_async = inspect.iscoroutinefunction(function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<task {self.definition.type!r}: {self.reference}>"

    @property
    def reference(self) -> str:
        """Where another process finds it: `module:function`."""
        return f"{self.function.__module__}:{self.function.__qualname__}"

    @property
    def description(self) -> str:
        """What it is for: as the options say, or the first paragraph of its docstring."""
        words = inspect.cleandoc(self.function.__doc__ or "").partition("\n\n")[0]
        return self.definition.description or tidy_text(" ".join(words.split()), longest=MAX_DESCRIPTION)


class TaskRegistry:
    """The functions that were decorated, by their type."""

    def __init__(self) -> None:
        self._functions: dict[str, TaskFunction[..., Any]] = {}

    def add(self, function: TaskFunction[..., Any]) -> None:
        """A module that is loaded anew replaces its own; two functions of one type are a mistake."""
        task_type = function.definition.type
        known = self._functions.get(task_type)
        if known is not None and known.reference != function.reference:
            problem = f"{task_type!r} is already {known.reference}; {function.reference} needs a type of its own"
            raise InvalidError("type", problem)
        self._functions[task_type] = function

    def find(self, task_type: str) -> TaskFunction[..., Any] | None:
        return self._functions.get(task_type)

    def __iter__(self) -> Iterator[TaskFunction[..., Any]]:
        return iter(self._functions.values())


def registry_of(tasks: TaskRegistry | Iterable[TaskFunction[..., Any]]) -> TaskRegistry:
    """A registry of these functions alone; one that is a registry already is what it is."""
    if isinstance(tasks, TaskRegistry):
        return tasks
    registry = TaskRegistry()
    for function in tasks:
        if not isinstance(function, TaskFunction):
            raise InvalidError("tasks", f"{function!r} is not decorated with @rota.task")
        registry.add(function)
    return registry


REGISTRY = TaskRegistry()  # data only: what the decorator found, read by whoever runs tasks


def cron(
    expression: str | None = None,
    /,
    *,
    type: str | None = None,
    zone: str | None = None,
    schedule: Mapping[str, Any] | None = None,
    **options: Unpack[TaskOptions],
) -> Callable[[Callable[P, R]], TaskFunction[P, R]]:
    """Make a function a task that runs by the clock: `@rota.cron("0 9 * * 1-5", zone="Asia/Shanghai")`.

    Its type is the name of the function, unless another is given; the zone is UTC by default; `schedule` has the other
    keys of a schedule, such as `{"overlap": "allow"}`; the rest is what `@rota.task` takes.
    """
    from rota.domain.schedule_form import schedule_from  # with its tables of time: nobody else needs it

    if expression is None or callable(expression):
        ways = '@rota.cron("0 9 * * *") or, for a pace, @rota.cron("@every 5s")'
        raise InvalidError("cron", f"is missing: write {ways}; schedule={{}} has only the other keys")
    keys = _schedule_keys(schedule or {}, zone=zone, options=options)
    wanted = schedule_from({**keys, "cron": expression})

    def decorate(function: Callable[P, R]) -> TaskFunction[P, R]:
        definition = define(function.__name__ if type is None else type, options)
        made = TaskFunction(function, replace(definition, schedule=wanted))
        _check_function(function, options)
        REGISTRY.add(made)
        return made

    return decorate


def _schedule_keys(schedule: Mapping[str, Any], *, zone: str | None, options: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a schedule beside its expression; none may be given twice, nor in the place of another."""
    from rota.domain.schedule_form import KNOWN_KEYS

    for key in ("cron", *(("zone",) if zone is not None else ())):
        if key in schedule:
            raise InvalidError(f"schedule.{key}", "is given twice: leave it out of schedule={}")
    for key in options.keys() & KNOWN_KEYS - TaskOptions.__annotations__.keys():
        raise InvalidError(key, f"belongs to the schedule: write schedule={{{key!r}: {options[key]!r}}}")
    return dict(schedule) if zone is None else {**schedule, "zone": zone}


def task(type: str, /, **options: Unpack[TaskOptions]) -> Callable[[Callable[P, R]], TaskFunction[P, R]]:
    """Make a function a task: `@rota.task("send_email", timeout="1m", retries=3)`."""
    definition = define(type, options)

    def decorate(function: Callable[P, R]) -> TaskFunction[P, R]:
        _check_function(function, options)
        made = TaskFunction(function, definition)
        REGISTRY.add(made)
        return made

    return decorate


def _check_function(function: Callable[..., Any], options: TaskOptions) -> None:
    """What could never run is refused here, not at its first attempt; a generator would even seem to have run."""
    name = getattr(function, "__qualname__", repr(function))
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise InvalidError("function", f"{name} yields, and a task returns: leave out the yield")
    if first := _find_positional(function):
        problem = f"{name} takes {first} by position alone, and a payload is passed by name: leave out the /"
        raise InvalidError("function", problem)
    if "isolation" in options and inspect.iscoroutinefunction(function):
        raise InvalidError("isolation", "is for plain functions; an async one runs on the task loop")


def _find_positional(function: Callable[..., Any]) -> str:
    """The first argument before a `/`, of the function that decorators have wrapped; read without its annotations,
    which may name what is not there yet."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return code.co_varnames[0] if code is not None and code.co_posonlyargcount else ""


def define(task_type: str, options: TaskOptions) -> TaskDefinition:
    """Check the options; `InvalidError` names the wrong one."""
    unknown = sorted(options.keys() - TaskOptions.__annotations__.keys())
    if unknown:
        from rota.domain.spelling import hint  # compares texts: nobody else needs it

        raise InvalidError(unknown[0], f"is no option of a task; {hint(unknown[0], TaskOptions.__annotations__)}")
    if callable(task_type):
        raise InvalidError("type", 'is missing: write @rota.task("send_email")')
    isolation = options.get("isolation", "process")
    if isolation not in ("process", "thread"):
        raise InvalidError("isolation", f"{isolation!r} must be 'process' or 'thread'")
    return TaskDefinition(
        type=check_name("type", task_type),
        timeout=_find_duration("timeout", options.get("timeout")),
        retries=_find_number("retries", options.get("retries"), least=0, most=1000),
        retry_delay=_find_duration("retry_delay", options.get("retry_delay")),
        retry_on=check_matchers("retry_on", options.get("retry_on", ())),
        give_up_on=check_matchers("give_up_on", options.get("give_up_on", ())),
        total_timeout=_find_duration("total_timeout", options.get("total_timeout")),
        priority=_find_priority(options.get("priority")),
        max_concurrent=_find_number("max_concurrent", options.get("max_concurrent"), least=1, most=1_000_000),
        rate_per_second=_find_rate(options.get("rate_per_second")),
        isolation=isolation,
        name=check_text("name", options.get("name", ""), longest=200),
        description=check_text("description", options.get("description", ""), longest=MAX_DESCRIPTION),
    )


def _find_duration(field: str, value: Duration | None) -> timedelta | None:
    return None if value is None else parse_duration(field, value)


def _find_number(field: str, value: int | None, *, least: int, most: int) -> int | None:
    return None if value is None else check_number(field, value, least=least, most=most)


def _find_priority(value: int | str | None) -> int | None:
    return None if value is None else parse_priority(value)


def _find_rate(value: object) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
        raise InvalidError("rate_per_second", "must be a number greater than 0")
    return float(value)
