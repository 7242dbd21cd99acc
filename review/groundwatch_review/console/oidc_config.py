"""What the console is told of an OpenID Connect provider, and what can go wrong with one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import SplitResult, urlsplit

from ..accounts import Role

LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")


class Unreachable(Exception):
    """The provider could not be asked, or said nothing usable; the message says what, for the log."""


class Untrusted(Exception):
    """What came back does not hold; the message says which check it failed, and repeats nothing of it."""


@dataclass(frozen=True, slots=True)
class OidcConfig:
    """Single sign-on for the console. Local users still work beside it. Needs `pip install "groundwatch[oidc]"`."""

    issuer: str = ""  # of the provider, exactly as it stands in its tokens; empty: no single sign-on
    client_id: str = ""  # of this console at the provider; its secret: GROUNDWATCH_OIDC_CLIENT_SECRET
    public_url: str = ""  # of this console, as browsers reach it; people come back to its /login/oidc/callback
    name: str = "single sign-on"  # on the button of the login page
    role_claim: str = "groups"  # claim of the ID token that the lists below are compared with; dots lead inwards
    name_claim: str = "preferred_username"  # claim that names the person on the console's pages
    viewers: tuple[str, ...] = ()  # values of role_claim that make a viewer
    reviewers: tuple[str, ...] = ()  # the same of a reviewer
    exporters: tuple[str, ...] = ()  # of an exporter
    admins: tuple[str, ...] = ()  # of an admin
    holdout: tuple[str, ...] = ()  # that may read the hold-out set whatever the role
    scopes: tuple[str, ...] = ("openid", "profile")  # asked for at the provider
    allow_private_network: bool = False  # whether the provider may be in a private network

    def __post_init__(self) -> None:
        if not self.issuer:
            return
        _check_address("issuer", self.issuer)
        _check_address("public_url", self.public_url)
        if urlsplit(self.public_url).path not in ("", "/"):
            raise ValueError(f"public_url is {self.public_url!r}; accepted: without a path, as https://desk.example")
        if not self.client_id:
            raise ValueError("client_id is empty; accepted: the identifier that the provider gave this console")
        if "openid" not in self.scopes:
            raise ValueError(f"scopes is {list(self.scopes)}; accepted: with 'openid' in it")
        if not self.role_claim.strip():
            raise ValueError("role_claim is empty; accepted: the name of a claim, as 'groups'")
        listed = (*self.values_of_roles.values(), self.holdout)
        if any(not value.strip() for values in listed for value in values):
            raise ValueError(
                "viewers, reviewers, exporters, admins or holdout has an empty value, which many people's claims may "
                "hold; accepted: texts that are not empty"
            )
        if not any(values for values in self.values_of_roles.values()):
            raise ValueError(
                "no value of role_claim gives a role, so nobody could come in; accepted: one of viewers, reviewers, "
                "exporters, admins with a value"
            )

    @property
    def values_of_roles(self) -> Mapping[Role, tuple[str, ...]]:
        return {
            Role.VIEWER: self.viewers,
            Role.REVIEWER: self.reviewers,
            Role.EXPORTER: self.exporters,
            Role.ADMIN: self.admins,
        }

    @property
    def callback(self) -> str:
        return self.public_url.rstrip("/") + "/login/oidc/callback"


def _check_address(name: str, address: str) -> None:
    """Raise ``ValueError`` unless *address* is an https address, or http on this machine."""
    try:
        parts = urlsplit(address)
        _port = parts.port
    except ValueError:
        raise ValueError(f"{name} is no address that can be read; accepted: https://host") from None
    plain = not (parts.username or parts.password or parts.query or parts.fragment)
    if not plain or not parts.hostname or not is_safe(parts):
        found = repr(address) if plain else "an address with a user, query or fragment"  # which may be a secret
        raise ValueError(
            f"{name} is {found}; accepted: https://host, without user, query or fragment; http:// only on this "
            "machine"
        )


def is_safe(parts: SplitResult) -> bool:
    """Whether nobody on the way can read along: TLS, or not a way at all."""
    return parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts))


def is_loopback(parts: SplitResult) -> bool:
    return parts.hostname in LOOPBACK
