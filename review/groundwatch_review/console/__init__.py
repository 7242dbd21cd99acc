"""The console: server-rendered pages over the same tables that every other part reads."""

from .app import console_app
from .config import ConsoleConfig
from .oidc_config import OidcConfig

__all__ = ["ConsoleConfig", "OidcConfig", "console_app"]
