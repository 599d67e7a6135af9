"""One reign of this node as leader. Whoever acts as leader holds one, and asks it right before acting."""

from rota.application.ports.system import Clock
from rota.domain.errors import FencedError
from rota.domain.term import Term


class Reign:
    """The term that was won, as long as it may be trusted."""

    def __init__(self, term: Term, clock: Clock) -> None:
        self._term = term
        self._clock = clock
        self.loss = ""  # why it was lost, once it was; "" when it ended because its node stops

    @property
    def number(self) -> int:
        """Which term it is, trusted or not: for logs, and to ask whether it is still the newest."""
        return self._term.number

    @property
    def term(self) -> Term:
        """The current term; `FencedError` when it can no longer be trusted: stop acting."""
        if not self._term.is_trusted(self._clock.monotonic()):
            raise FencedError("term", seen=self._term.number, current=self._term.number + 1)
        return self._term

    def check(self) -> None:
        """Right before acting: `FencedError` when the term can no longer be trusted."""
        _ = self.term

    def extend(self, term: Term) -> None:
        """The same term was renewed: trust it longer."""
        self._term = term

    def end(self, loss: str = "") -> None:
        """It is over, whatever the clock says."""
        self.loss = loss
        self._term = Term(self._term.number, trusted_until=float("-inf"))
