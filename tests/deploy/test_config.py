"""Configuration is checked whole at start and never shows a secret."""

from __future__ import annotations

import stat
from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from groundwatch_deploy.config import (
    ConfigError,
    Secret,
    ServerConfig,
    build,
    load_secrets,
    read_file,
    refuse_unknown,
)


@dataclass(frozen=True)
class Example:
    count: int = 1
    ratio: float = 0.5
    names: tuple[str, ...] = ()
    rates: Mapping[str, float] = field(default_factory=dict)


def test_values_of_the_right_type_are_taken():
    example = build(Example, {"count": 2, "ratio": 1, "names": ["a"], "rates": {"x": 1}}, "[example]")
    assert example == Example(2, 1.0, ("a",), {"x": 1.0})


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"cuont": 1}, r"\[e\]: unknown key 'cuont'; did you mean 'count'\?"),
        ({"zzz": 1}, r"\[e\]: unknown key 'zzz'; known keys: count, names, rates, ratio"),
        ({"count_secret": "4711"}, r"'count_secret'; a secret comes from an environment variable"),
        ({"count": "2"}, r"\[e\]\.count: expected int, found str"),
        ({"count": True}, r"\[e\]\.count: expected int, found bool"),
        ({"names": ["a", 1]}, r"\[e\]\.names: expected str, found int"),
        ({"rates": {"x": "much"}}, r"\[e\]\.rates\.x: expected float, found str"),
    ],
)
def test_anything_else_is_refused_by_name(values, message):
    with pytest.raises(ConfigError, match=message):
        build(Example, values, "[e]")


def test_an_unknown_section_names_the_nearest():
    with pytest.raises(ConfigError, match="did you mean 'server'"):
        refuse_unknown({"sever": {}}, ("server", "judge"), "groundwatch.toml")


@pytest.mark.parametrize(
    ("text", "message"),
    [("a = ", "not valid TOML"), ("a = " + "[" * 9_999, "nested too deeply"), (None, "cannot be read")],
)
def test_a_file_that_cannot_be_used_is_named(tmp_path, text, message):
    path = tmp_path / "groundwatch.toml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ConfigError, match=message):
        read_file(path)


def test_a_port_outside_the_range_is_refused():
    with pytest.raises(ConfigError, match=r"server\.ingest_port: 70000 is not a port"):
        build(ServerConfig, {"ingest_port": 70000}, "[server]")


def test_keys_are_made_once_for_the_owner_only_and_never_shown(tmp_path):
    first, second = load_secrets(tmp_path, {}), load_secrets(tmp_path, {})
    assert first == second
    assert len(first.sampling_salt.value) == 32
    assert stat.S_IMODE((tmp_path / "sampling.salt").stat().st_mode) == 0o600
    assert first.sampling_salt.value.hex() not in repr(first)


def test_the_environment_wins_and_is_checked(tmp_path):
    assert load_secrets(tmp_path, {"GROUNDWATCH_SAMPLING_SALT": "ab" * 16}).sampling_salt == Secret(b"\xab" * 16)
    with pytest.raises(ConfigError, match="GROUNDWATCH_SAMPLING_SALT: not hexadecimal"):
        load_secrets(tmp_path, {"GROUNDWATCH_SAMPLING_SALT": "xyz"})
    with pytest.raises(ConfigError, match="2 bytes; accepted: 16 to 64"):
        load_secrets(tmp_path, {"GROUNDWATCH_SAMPLING_SALT": "abcd"})
