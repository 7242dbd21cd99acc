"""The console of a running monitor that other machines reach: TLS, a login, and the users made on the machine."""

from __future__ import annotations

import json
import ssl
from pathlib import Path

import httpx
import pytest
from certificates import Authority

from groundwatch_deploy.cli import main
from groundwatch_deploy.config import ConfigError
from groundwatch_deploy.doctor_network import check_console
from groundwatch_deploy.serve import Monitor
from groundwatch_deploy.settings import Settings, load

pytestmark = pytest.mark.service("openssl")


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ca"))


def settings_of(folder: Path, **server: object) -> Settings:
    return load(
        None, data_directory=folder, ingest_port=0, console_port=0, metrics_port=0, console_host="0.0.0.0", **server
    )


def test_other_machines_do_not_reach_it_without_tls(tmp_path):
    with pytest.raises(ConfigError, match="passwords would travel to it unencrypted"):
        Monitor(settings_of(tmp_path))


def test_others_log_in_over_tls_with_a_user_made_while_it_runs(tmp_path, authority, capsys):
    pair = authority.sign("server")
    tls = {"tls_certificate": str(pair.certificate), "tls_key": str(pair.key)}
    # The ingest doors ask for client certificates, the console does not: people have none.
    tls |= {"tls_client_ca": str(authority.pair.certificate)}
    trusted = ssl.create_default_context(cafile=authority.pair.certificate)
    with Monitor(settings_of(tmp_path, **tls)) as monitor:
        addresses = monitor.start()
        address = addresses.console.replace("0.0.0.0", "localhost")
        assert address.startswith("https://")
        with httpx.Client(base_url=address, verify=trusted, timeout=60) as browser:
            page = browser.get("/")
            assert (page.status_code, "There is no user yet" in page.text) == (401, True)
            assert browser.get("/healthz").text == "ok\n"
            assert main(["user", "add", "anna", "--role", "admin", "--json", "--data-dir", str(tmp_path)]) == 0
            password = json.loads(capsys.readouterr().out)["password"]
            form = {"name": "anna", "password": password, "csrf": browser.cookies["__Host-groundwatch_csrf"]}
            answer = browser.post("/login", data=form, headers={"origin": address})
            assert answer.status_code == 303
            assert all("Secure" in cookie for cookie in answer.headers.get_list("set-cookie"))
            assert browser.get("/account").status_code == 200
        assert check_console(address, trusted).status == "ok"
        metrics = httpx.get(f"{addresses.metrics}/metrics").text
        assert 'groundwatch_console_logins_total{result="ok"} 1.0' in metrics
