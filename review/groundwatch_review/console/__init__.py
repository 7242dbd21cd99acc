"""The console: server-rendered pages over the same tables that every other part reads."""

from typing import TYPE_CHECKING, Any

from .config import ConsoleConfig
from .oidc_config import OidcConfig

if TYPE_CHECKING:
    from .app import console_app

__all__ = ["ConsoleConfig", "OidcConfig", "console_app"]


def __getattr__(name: str) -> Any:
    """The application when it is asked for: whoever only reads settings should not wait for its pages."""
    if name != "console_app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .app import console_app  # noqa: PLC0415

    return console_app
