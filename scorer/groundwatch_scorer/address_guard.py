"""Keep requests to an address of the configuration from being led into a network where they should not go.

Every request resolves the name, checks each address, and goes to the address that was checked.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable, Sequence
from typing import Any

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Resolve = Callable[[str, int], Sequence[str]]

# Cloud metadata and platform services that Python does not count as link-local.
_METADATA = tuple(
    ipaddress.ip_address(text) for text in ("100.100.100.200", "168.63.129.16", "192.0.0.192", "fd00:ec2::254")
)
_NAT64 = tuple(ipaddress.IPv6Network(text) for text in ("64:ff9b::/96", "64:ff9b:1::/48"))


class EndpointRefused(ValueError):
    """The endpoint may not be used; the message names it and says what is accepted. Trying again does not help."""


def refusal_of(address: Address, *, allow_loopback: bool, allow_private: bool) -> str:
    """Why *address* may not be used, or "" when it may."""
    address = _embedded(address)
    if address in _METADATA or address.is_link_local:
        return "it is a link-local or metadata address"
    if address.is_unspecified or address.is_multicast:
        return "it is no address of one host"
    if address.is_loopback:
        return "" if allow_loopback else "it is this machine, which is not allowed here"
    if not address.is_global and not allow_private:
        return "it is in a private network; allow private addresses there if that is meant"
    return ""


class AddressGuard:
    """Called before every request of *what*: checks where it would go, and nails it there."""

    def __init__(self, what: str, allow_loopback: bool, allow_private: bool, resolve: Resolve | None = None) -> None:
        self._what = what
        self._allow_loopback = allow_loopback
        self._allow_private = allow_private
        self._resolve = resolve or _resolve

    def __call__(self, request: Any) -> None:
        host = request.url.host
        port = request.url.port or (443 if request.url.scheme == "https" else 80)
        found = self._resolve(host, port)
        for text in found:
            why = refusal_of(
                ipaddress.ip_address(text), allow_loopback=self._allow_loopback, allow_private=self._allow_private
            )
            if why:
                raise EndpointRefused(f"{self._what} {host} resolves to {text}: {why}")
        # The Host header was set when the request was built; the certificate is still checked against the name.
        request.extensions = {**request.extensions, "sni_hostname": host}
        request.url = request.url.copy_with(host=found[0])


def _resolve(host: str, port: int) -> Sequence[str]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(entry[4][0]).partition("%")[0] for entry in found]


def _embedded(address: Address) -> Address:
    """The IPv4 address that an IPv6 one stands for."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    if any(address in network for network in _NAT64):
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address
