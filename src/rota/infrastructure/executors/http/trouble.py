"""Why there is no answer to a request that could be used."""


class ExchangeError(Exception):
    """An exchange that failed: what the task is told, whether another try may help, and what it says of the target."""

    def __init__(
        self, code: str, problem: str, *, is_retryable: bool = True, is_answered: bool = False, is_fault: bool = True
    ) -> None:
        super().__init__(problem)
        self.code = code
        self.is_retryable = is_retryable
        self.is_answered = is_answered  # something came back: the target is alive
        self.is_fault = is_fault  # whether the target had to do with it at all
