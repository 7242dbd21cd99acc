"""The console: server-rendered pages over the same tables that every other part reads."""

from .app import console_app
from .config import ConsoleConfig

__all__ = ["ConsoleConfig", "console_app"]
