"""What the doctor says of one thing that it looked at."""

from dataclasses import dataclass

from rota.domain.errors import ConfigError, RotaError, UnavailableError

LOOK_AT_SETTINGS = "rota settings show --origin"


@dataclass(frozen=True, slots=True)
class Finding:
    """What was looked at, what was seen, and if it is not sound, what to do."""

    subject: str
    text: str
    fix: str = ""  # empty: it is sound
    is_seen: bool = True  # else it could not be looked at, and the text says why

    @property
    def is_sound(self) -> bool:
        return not self.fix


def unusable(subject: str, error: RotaError, *, fix: str = LOOK_AT_SETTINGS) -> Finding:
    """What could not be looked at; what the error says to do is better than what can be guessed."""
    text = error.problem if isinstance(error, ConfigError) else str(error)
    own = error.fix if isinstance(error, ConfigError | UnavailableError) else ""
    return Finding(subject, text, fix=own or fix, is_seen=False)
