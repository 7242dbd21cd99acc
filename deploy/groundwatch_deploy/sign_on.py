"""Whether single sign-on can work with what is installed; asked before anything starts."""

from __future__ import annotations

import importlib.util

from groundwatch_deploy.config import ConfigError
from groundwatch_review.console import OidcConfig


def require_oidc(config: OidcConfig) -> None:
    """Raise :class:`ConfigError` where [oidc] is used without its extra."""
    if config.issuer and importlib.util.find_spec("authlib") is None:
        raise ConfigError(
            '[oidc] issuer: authlib is not installed; run: pip install "groundwatch[oidc]", or leave issuer empty'
        )
