"""What Redis refuses until somebody changes the settings or its users: no outage, and waiting does not help."""

from redis.exceptions import AskError, AuthenticationError, NoPermissionError, RedisError
from redis.exceptions import ConnectionError as RedisConnectionError

LOGIN = "correct the user and password in the url, or let Redis know them (ACL LIST)"
RIGHTS = "give its user what docs/guides/on-redis-alone.md names, for the keys of coordinator.prefix"
A_SENTINEL = "redis+sentinel://…/SERVICE in the url"
NO_SENTINEL = "redis:// in the url for one Redis alone, or the port of a Sentinel"
SENTINEL_LOGIN = "sentinel_user and sentinel_password in the url; or redis:// for one Redis alone"
A_CLUSTER = "redis+cluster:// in the url"
NO_CLUSTER = "redis:// in the url for one Redis alone"
DENIED_TO_SCRIPT = ("The user executing the script can't", "ACL failure in script")  # as a plain error, of 6 and 7
NO_LOGIN = "HELLO must be called"  # and more, for those who wrote a client
UNKNOWN = "unknown command"


class NoServerError(RedisConnectionError):
    """None of several servers can be used; `fix` is what helps against a refusal of one of them."""

    def __init__(self, problem: str, *, fix: str) -> None:
        super().__init__(problem)
        self.fix = fix


def tell_refusal(error: Exception) -> tuple[str, str]:
    """What an error of Redis means, and what to do about it; nothing to do where it is away, or busy."""
    said = str(error) or "no answer in time"
    if isinstance(error, NoServerError):
        return said, error.fix
    if isinstance(error, AuthenticationError):
        said = "it was given none" if said.startswith(NO_LOGIN) else said
        return f"it wants another user or password than the url has ({said})", LOGIN
    if isinstance(error, NoPermissionError) or any(text in said for text in DENIED_TO_SCRIPT):
        return said, RIGHTS
    if isinstance(error, AskError):
        return "this is a node of a cluster, for which the url begins with redis+cluster://", A_CLUSTER
    if said.startswith(UNKNOWN):
        return (
            f"this is a Sentinel, for which the url begins with redis+sentinel://, or no Redis ({said.strip()})",
            A_SENTINEL,
        )
    return said, ""


def tell_no_sentinel(error: RedisError | OSError) -> tuple[str, str]:
    """The same of a server that is asked as a Sentinel."""
    if str(error).startswith(UNKNOWN):
        return "is no Sentinel; one Redis alone is redis://", NO_SENTINEL
    problem, fix = tell_refusal(error)
    return problem, SENTINEL_LOGIN if fix == LOGIN else fix


def tell_no_node(error: RedisError | OSError) -> tuple[str, str]:
    """The same of a server that is asked as a node of a cluster."""
    if "cluster support disabled" in str(error):
        return "is no node of a cluster; one Redis alone is redis://", NO_CLUSTER
    return tell_refusal(error)
