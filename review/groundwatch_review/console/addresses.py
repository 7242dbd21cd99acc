"""Identifiers in an address: what is none is answered before anything is looked up."""

from __future__ import annotations

import re

from starlette.exceptions import HTTPException
from starlette.requests import Request

TRACE_ID = re.compile(r"[0-9a-f]{32}")
CANDIDATE_ID = re.compile(r"rc_[0-9a-f]{24}")


def trace_id(request: Request) -> str:
    """The trace of this address. Raises 404 for what is no identifier."""
    found = str(request.path_params["trace_id"])
    if not TRACE_ID.fullmatch(found):
        raise HTTPException(404, "A trace identifier has 32 lowercase hexadecimal digits.")
    return found


def candidate_id(request: Request) -> str:
    """The candidate of this address. Raises 404 for what is no identifier."""
    found = str(request.path_params["candidate_id"])
    if not CANDIDATE_ID.fullmatch(found):
        raise HTTPException(404, "A candidate identifier is rc_ and 24 hexadecimal digits.")
    return found
