"""Rota: a distributed task scheduler whose store and coordination are exchangeable."""

from rota.__about__ import __version__

__all__ = ["__version__"]
