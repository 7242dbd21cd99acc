"""`--judge llm` of a command: the model that the configuration names."""

from __future__ import annotations

from pathlib import Path

from groundwatch_deploy.config import ConfigError, load_secrets
from groundwatch_deploy.serve import llm_judge
from groundwatch_deploy.settings import load
from groundwatch_scorer.judgement import Judge


def configured_model(config: Path | None) -> Judge:
    """The judge of ``[judge] llm_model``. Raises :class:`ConfigError` where none is named or it may not be used."""
    settings = load(config)
    if not settings.judge.llm_model:
        raise ConfigError("--judge llm needs [judge] llm_model in the file given with --config")
    return llm_judge(settings.judge, load_secrets(settings.server.data_directory).llm_api_key)
