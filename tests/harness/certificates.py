"""Certificates for tests, made by the openssl program: an authority, and what it signs."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Pair:
    certificate: Path
    key: Path


class Authority:
    """A certificate authority of its own in *folder*."""

    def __init__(self, folder: Path, name: str = "test authority") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self.pair = Pair(folder / "ca.pem", folder / "ca.key")
        self._openssl(
            *("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"),
            *("-subj", f"/CN={name}", "-keyout", str(self.pair.key), "-out", str(self.pair.certificate)),
        )

    def sign(self, name: str, *, expired: bool = False) -> Pair:
        """A certificate for 127.0.0.1 and localhost, of a server and of a client alike."""
        made = Pair(self._folder / f"{name}.pem", self._folder / f"{name}.key")
        request, extensions = self._folder / f"{name}.csr", self._folder / f"{name}.ext"
        extensions.write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\nextendedKeyUsage=serverAuth,clientAuth\n")
        self._openssl(
            *("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"),
            *("-subj", f"/CN={name}", "-keyout", str(made.key), "-out", str(request)),
        )
        # -days -1 ends the validity yesterday (before it began, which is expired all the same).
        self._openssl(
            *("x509", "-req", "-in", str(request), "-CA", str(self.pair.certificate), "-CAkey", str(self.pair.key)),
            *("-CAcreateserial", "-days", "-1" if expired else "2", "-extfile", str(extensions)),
            *("-out", str(made.certificate)),
        )
        return made

    def _openssl(self, *arguments: str) -> None:
        subprocess.run(["openssl", *arguments], check=True, capture_output=True)
