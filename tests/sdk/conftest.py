"""A real OTLP receiver on the loopback, and a clean SDK for each test."""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import pytest
from span_receiver import Receiver

import groundwatch
from groundwatch import quiet


@pytest.fixture(autouse=True)
def clean_sdk(monkeypatch):
    """No settings from outside, nothing told yet, and nothing left running."""
    import os

    for name in [name for name in os.environ if name.startswith(("OTEL_", "GROUNDWATCH_"))]:
        monkeypatch.delenv(name)
    quiet._told.clear()
    errors = quiet.internal_errors()
    yield
    groundwatch.shutdown(0.05)
    assert quiet.internal_errors() == errors or quiet._told & {"expected_internal_error"}


@pytest.fixture
def receiver():
    made = Receiver()
    yield made
    made.close()


@pytest.fixture
def configured(receiver):
    """The SDK, sending text to the receiver."""
    groundwatch.configure(service="shop", version="7", endpoint=receiver.url, capture_content="text")
    return receiver


@pytest.fixture
def sent(configured):
    """Call it to flush; gives the receiver."""

    def flush():
        result = groundwatch.flush(10)
        assert result.pending == 0
        return configured

    return flush
