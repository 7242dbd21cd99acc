"""An OpenID provider over real HTTP with really signed tokens, which can be told to misbehave.

It keeps to the protocol by itself: PKCE and the client's secret are checked, a code is good once and for one redirect
address. What a test sets in ``lies`` is what a hostile or broken provider would send instead.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import RSAKey
from local_server import served

CLIENT, SECRET = "groundwatch", "s3cret-of-the-client"


@dataclass
class Stub:
    issuer: str = ""
    now: Callable[[], float] = time.time
    person: dict[str, Any] = field(default_factory=lambda: {"sub": "u-1", "preferred_username": "anna", "groups": []})
    lies: dict[str, Any] = field(
        default_factory=dict
    )  # claims, metadata, jwks, unsigned, hmac, error, id_token, bodies
    keys: list[RSAKey] = field(default_factory=lambda: [RSAKey.generate_key(2048, {"kid": "k1", "use": "sig"})])
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)  # paths, in order

    def rotate(self, *, keep: bool = False) -> None:
        """Sign with another key from now on; the old one is gone, or still published."""
        new = RSAKey.generate_key(2048, {"kid": f"k{len(self.keys) + 1}", "use": "sig"})
        self.keys = [new, *self.keys] if keep else [new]

    def metadata(self) -> dict[str, Any]:
        paths = {"authorization_endpoint": "/authorize", "token_endpoint": "/token", "jwks_uri": "/keys"}
        found: dict[str, Any] = {name: self.issuer + path for name, path in paths.items()}
        return {"issuer": self.issuer, **found, **self.lies.get("metadata", {})}

    def authorize(self, asked: dict[str, str]) -> str:
        """Log the person in and return where the browser is sent."""
        if "error" in self.lies:
            return f"{asked['redirect_uri']}?{urlencode({'error': self.lies['error'], 'state': asked['state']})}"
        code = secrets.token_urlsafe(16)
        self.codes[code] = asked
        told = {"code": code, "state": asked["state"], "iss": self.issuer, **self.lies.get("answer", {})}
        return f"{asked['redirect_uri']}?{urlencode(told)}"

    def token(self, form: dict[str, str], authorization: str) -> tuple[int, dict[str, Any]]:
        expected = base64.b64encode(f"{CLIENT}:{SECRET}".encode()).decode()
        if authorization != f"Basic {expected}":
            return 401, {"error": "invalid_client"}
        asked = self.codes.pop(form.get("code", ""), None)
        if asked is None or asked["redirect_uri"] != form.get("redirect_uri"):
            return 400, {"error": "invalid_grant"}
        made = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        if asked["code_challenge"] != base64.urlsafe_b64encode(made).rstrip(b"=").decode():
            return 400, {"error": "invalid_grant"}
        return 200, {"access_token": "at", "token_type": "Bearer", "id_token": self.id_token(asked["nonce"])}

    def id_token(self, nonce: str) -> Any:
        if "id_token" in self.lies:
            return self.lies["id_token"]
        now = int(self.now())
        claims = {"iss": self.issuer, "aud": CLIENT, "iat": now, "exp": now + 300, "nonce": nonce, **self.person}
        claims |= self.lies.get("claims", {})
        claims = {name: value for name, value in claims.items() if value is not None}
        if "unsigned" in self.lies:
            return _glued({"alg": self.lies["unsigned"]}, claims, b"")
        if self.lies.get("hmac"):  # with the public key, which a careless library takes for the shared secret
            public = self.keys[0].as_pem(private=False)
            return _glued({"alg": "HS256", "kid": self.keys[0].kid}, claims, public)
        key = self.lies.get("key", self.keys[0])
        return jwt.encode({"alg": "RS256", "kid": key.kid}, claims, key)


def _glued(header: dict[str, Any], claims: dict[str, Any], secret: bytes) -> str:
    """A token as no library would make it."""
    parts = [base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=") for part in (header, claims)]
    signed = b".".join(parts)
    made = hmac.new(secret, signed, hashlib.sha256).digest() if secret else b""
    return (signed + b"." + base64.urlsafe_b64encode(made).rstrip(b"=")).decode()


@contextmanager
def serving(stub: Stub) -> Iterator[Stub]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            stub.asked.append(parts.path)
            if parts.path in stub.lies.get("bodies", {}):
                self._body(200, stub.lies["bodies"][parts.path])
            elif parts.path == "/.well-known/openid-configuration":
                self._json(200, stub.metadata())
            elif parts.path == "/keys":
                published = [key.as_dict(private=False) for key in stub.keys]
                self._json(200, {"keys": stub.lies.get("jwks", published)})
            elif parts.path == "/authorize":
                asked = {name: values[0] for name, values in parse_qs(parts.query).items()}
                self.send_response(303)
                self.send_header("location", stub.authorize(asked))
                self.end_headers()
            else:
                self._json(404, {})

        def do_POST(self) -> None:
            stub.asked.append(self.path)
            body = self.rfile.read(int(self.headers["content-length"])).decode()
            form = {name: values[0] for name, values in parse_qs(body).items()}
            if self.path in stub.lies.get("bodies", {}):
                self._body(200, stub.lies["bodies"][self.path])
            else:
                self._json(*stub.token(form, self.headers.get("authorization", "")))

        def _json(self, status: int, told: dict[str, Any]) -> None:
            self._body(status, json.dumps(told).encode())

        def _body(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_arguments: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    stub.issuer = f"http://127.0.0.1:{server.server_port}"
    with served(server):
        yield stub
