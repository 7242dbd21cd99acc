"""A real OpenID provider: `oidc-provider`, certified by the OpenID Foundation, from npm.

`python tests/harness/oidc_provider.py build` installs it once, into GROUNDWATCH_OIDC_HOME or
~/.cache/groundwatch-oidc-provider; Node 20 or newer must be there.
"""

from __future__ import annotations

import argparse
import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

VERSION = "9.13.3"
CLIENT, SECRET = "groundwatch", "s3cret-of-the-client"

# Two people: the claim `groups` says what each may; the provider's own pages ask for any password.
_SERVER = """#!/usr/bin/env node
import { Provider } from 'oidc-provider';
const [port, callback, client_id, client_secret] = process.argv.slice(2);
const groups = { anna: ['rag-reviewers'], nora: [] };
const provider = new Provider(`http://localhost:${port}`, {
  clients: [{ client_id, client_secret, redirect_uris: [callback], grant_types: ['authorization_code'],
              response_types: ['code'] }],
  pkce: { required: () => true },
  claims: { openid: ['sub'], profile: ['preferred_username', 'groups'] },
  conformIdTokenClaims: false,
  findAccount: (_context, id) => ({
    accountId: id, claims: () => ({ sub: id, preferred_username: id, groups: groups[id] ?? [] }),
  }),
});
provider.listen(Number(port), 'localhost', () => console.log('up'));
"""


def program() -> Path:
    given = os.environ.get("GROUNDWATCH_OIDC_HOME")
    home = Path(given) if given else Path.home() / ".cache" / "groundwatch-oidc-provider"
    return home / VERSION / "serve.mjs"


def build() -> Path:
    """The program; installed the first time."""
    path = program()
    if path.exists() and path.read_text() == _SERVER:  # written last: all before it is there
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    (path.parent / "package.json").write_text('{"private": true, "type": "module"}\n')
    command = ["npm", "install", "--no-audit", "--no-fund", f"oidc-provider@{VERSION}"]
    subprocess.run(command, cwd=path.parent, check=True)
    path.write_text(_SERVER)
    path.chmod(0o755)
    return path


def free_port() -> int:
    with closing(socket.socket()) as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@contextmanager
def running(callback: str) -> Iterator[str]:
    """The issuer of a provider that sends people back to *callback*."""
    port = free_port()
    arguments = [str(program()), str(port), callback, CLIENT, SECRET]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == "up\n"
            yield f"http://localhost:{port}"
        finally:
            process.terminate()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["build"])
    parser.parse_args()
    print(build())
