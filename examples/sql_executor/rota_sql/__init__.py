"""An executor of type `sql` for Rota: each attempt is one statement, prepared beforehand, in a database of yours."""

from .config import check_config
from .executor import make_executor

__all__ = ["check_config", "make_executor"]
