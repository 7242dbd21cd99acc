"""Judges of a deployment's own: a Python file each, named in ``[judge] own_judges``."""

from __future__ import annotations

import importlib
from collections.abc import Sequence

from groundwatch_deploy.config import ConfigError
from groundwatch_deploy.own_files import found_here_too
from groundwatch_scorer.judgement import Judge

_LONGEST_NAME = 200  # of the column that keeps it


def own_judges(names: Sequence[str], taken: Sequence[str]) -> list[Judge]:
    """What each ``module:function`` returns. *taken*: identifiers of the other judges.

    Raises :class:`ConfigError` for one that cannot be loaded or is no judge.
    """
    found: list[Judge] = []
    if names:
        found_here_too()
    for name in names:
        judge = _made(name)
        known = {*taken, *(one.identifier for one in found)}
        if not 0 < len(judge.identifier) <= _LONGEST_NAME or judge.identifier in known:
            raise ConfigError(
                f"[judge] own_judges: {name!r} calls itself {judge.identifier[:40]!r}; accepted: a name of up to "
                f"{_LONGEST_NAME} characters that no other judge has ({', '.join(sorted(known))})"
            )
        found.append(judge)
    return found


def _made(name: str) -> Judge:
    module, _colon, function = name.partition(":")
    try:
        judge: Judge = getattr(importlib.import_module(module), function)()
    except Exception as error:  # code of others: whatever it raises, the configuration cannot be used
        raise ConfigError(
            f"[judge] own_judges: {name!r} cannot be loaded ({type(error).__name__}: {error}); accepted: "
            "module:function, in this folder or where PYTHONPATH says, that takes nothing and returns a judge"
        ) from error
    if not isinstance(getattr(judge, "identifier", None), str) or not callable(getattr(judge, "assess", None)):
        raise ConfigError(
            f"[judge] own_judges: {name!r} returns {type(judge).__name__}; accepted: something with `identifier` and "
            "`assess(trace)`"
        )
    return judge
