"""What configure() accepts, where it reads it, and how it refuses."""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import pytest

from groundwatch import ConfigurationError
from groundwatch.settings import resolve

HERE = {"endpoint": "http://localhost:4318"}


def shout(text: str) -> str:
    return text.upper()


def test_an_argument_beats_groundwatch_beats_otel_beats_the_default():
    environ = {
        "GROUNDWATCH_SERVICE": "from-groundwatch",
        "OTEL_SERVICE_NAME": "from-otel",
        "OTEL_RESOURCE_ATTRIBUTES": "service.name=from-resource,service.version=1%2C5,"
        "deployment.environment.name=prod",
    }
    assert resolve({**HERE, "service": "given"}, environ).service == "given"
    assert resolve(HERE, environ).service == "from-groundwatch"
    del environ["GROUNDWATCH_SERVICE"]
    assert resolve(HERE, environ).service == "from-otel"
    del environ["OTEL_SERVICE_NAME"]
    found = resolve(HERE, environ)
    assert (found.service, found.version, found.environment) == ("from-resource", "1,5", "prod")
    assert resolve(HERE, {}).service == "unknown_service"


@pytest.mark.parametrize(
    ("environ", "traces", "feedback"),
    [
        ({"GROUNDWATCH_ENDPOINT": "http://gw:1/"}, "http://gw:1/v1/traces", "http://gw:1/v1/feedback"),
        ({"GROUNDWATCH_ENDPOINT": "http://gw:1/x/v1/traces"}, "http://gw:1/x/v1/traces", "http://gw:1/x/v1/feedback"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "https://o:2"}, "https://o:2/v1/traces", "https://o:2/v1/feedback"),
        (
            {
                "OTEL_EXPORTER_OTLP_ENDPOINT": "http://no",
                "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://o:2/t/v1/traces",
            },
            "http://o:2/t/v1/traces",
            "http://o:2/t/v1/feedback",
        ),
        (
            {"GROUNDWATCH_ENDPOINT": "http://gw:1", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://o:2/v1/traces"},
            "http://gw:1/v1/traces",
            "http://gw:1/v1/feedback",
        ),
        (
            {"GROUNDWATCH_ENDPOINT": "http://gw:1", "GROUNDWATCH_FEEDBACK_ENDPOINT": "http://fb:3"},
            "http://gw:1/v1/traces",
            "http://fb:3/v1/feedback",
        ),
        ({"GROUNDWATCH_ENDPOINT": "gw:4317", "GROUNDWATCH_PROTOCOL": "grpc"}, "gw:4317", ""),
        (
            {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://o:4317", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
            "http://o:4317",
            "",
        ),
    ],
)
def test_addresses(environ, traces, feedback):
    found = resolve({}, environ)
    assert (found.traces_url, found.feedback_url) == (traces, feedback)


def test_the_hosts_otel_headers_and_protocol_stay_with_the_hosts_endpoint():
    """They may be the API key of another vendor."""
    environ = {"OTEL_EXPORTER_OTLP_HEADERS": "api-key=secret%20one", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}
    own = resolve(HERE, environ)
    assert (dict(own.headers), own.protocol) == ({}, "http/protobuf")
    hosts = resolve({}, {**environ, "OTEL_EXPORTER_OTLP_ENDPOINT": "http://o:4317"})
    assert (dict(hosts.headers), hosts.protocol) == ({"api-key": "secret one"}, "grpc")


@pytest.mark.parametrize(
    ("explicit", "environ", "reason"),
    [
        ({}, {}, "no endpoint"),
        (HERE, {"OTEL_SDK_DISABLED": "true"}, "OTEL_SDK_DISABLED"),
        (HERE, {"GROUNDWATCH_DISABLED": "1"}, "GROUNDWATCH_DISABLED"),
        (HERE, {"OTEL_SDK_DISABLED": "no"}, ""),
    ],
)
def test_disabled(explicit, environ, reason):
    assert reason in resolve(explicit, environ).disabled
    assert bool(reason) == bool(resolve(explicit, environ).disabled)


@pytest.mark.parametrize(
    ("explicit", "environ", "message"),
    [
        ({"capture_content": "all"}, {}, "capture_content is 'all'; accepted: none, ids, text"),
        (
            {},
            {"GROUNDWATCH_CAPTURE_CONTENT": "yes"},
            "GROUNDWATCH_CAPTURE_CONTENT is 'yes'; accepted: none, ids, text",
        ),
        ({"protocol": "http/json"}, {}, "protocol is 'http/json'; accepted: http/protobuf, grpc"),
        ({"endpoint": "localhost:4318"}, {}, "endpoint is not an address to send to: found no scheme"),
        ({"endpoint": "ftp://x"}, {}, "accepted: http://HOST:PORT or https://HOST:PORT"),
        ({"endpoint": 5}, {}, "endpoint must be str; found int"),
        ({"queue_size": 0}, {}, "queue_size is 0; accepted: a whole number from 1 up"),
        ({"queue_size": True}, {}, "queue_size is True; accepted: a number"),
        ({}, {"GROUNDWATCH_MAX_TEXT_CHARS": "many"}, "GROUNDWATCH_MAX_TEXT_CHARS is 'many'; accepted: a number"),
        ({"export_timeout_seconds": -1}, {}, r"export_timeout_seconds is -1; accepted: seconds in \(0, 600\]"),
        ({"export_timeout_seconds": float("nan")}, {}, "accepted: a number"),
        ({"headers": "novalue"}, {}, 'headers has an entry that is not "name=value"'),
        ({"headers": {"a": 1}}, {}, "headers must map names to values"),
        ({"redact": 5}, {}, "redact must be a function"),
        ({}, {"GROUNDWATCH_REDACT": "nosuchmodule:f"}, "redact names 'nosuchmodule:f', which cannot be loaded"),
        ({}, {"GROUNDWATCH_REDACT": "os:sep"}, "redact names 'os:sep', which is str, not a function"),
    ],
)
def test_what_cannot_be_used_is_named_with_what_can(explicit, environ, message):
    with pytest.raises(ConfigurationError, match=message):
        resolve({**HERE, **explicit}, environ)


def test_errors_do_not_repeat_passwords():
    with pytest.raises(ConfigurationError) as error:
        resolve({"endpoint": "ftp://user:hunter2@host"}, {})
    assert "hunter2" not in str(error.value)


def test_a_password_in_the_address_becomes_a_header():
    found = resolve({"endpoint": "https://user:p%40ss@gw:4318"}, {})
    assert found.traces_url == "https://gw:4318/v1/traces"
    assert found.feedback_url == "https://gw:4318/v1/feedback"
    assert dict(found.headers) == {"authorization": "Basic dXNlcjpwQHNz"}


def test_redact_from_the_environment():
    found = resolve(HERE, {"GROUNDWATCH_REDACT": "textwrap:dedent"})
    assert found.redact is not None
    assert found.redact("  a") == "a"


def test_grpc_that_is_not_installed(monkeypatch):
    import importlib.util

    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *a: None if name == "grpc" else real(name, *a))
    with pytest.raises(ConfigurationError, match=r'pip install "groundwatch\[grpc\]"'):
        resolve({**HERE, "protocol": "grpc"}, {})
