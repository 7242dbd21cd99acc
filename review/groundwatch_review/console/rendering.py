"""Templates, their filters, and the addresses that pages link to."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote, urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from . import charts, formats, marking
from .guard import CSRF_COOKIE, CSRF_FIELD, cookie_name, csrf_token

HERE = Path(__file__).parent
YEAR_SECONDS = 365 * 86_400
CARRIED = ("app", "version", "window", "verdict", "layer", "outcome", "stratum", "feedback", "sort", "q", "why")
"""Filters that go along from page to page; a page leaves what it does not know."""


class Page(Protocol):
    """Renders a template with what every page shares."""

    def __call__(self, request: Request, name: str, context: Mapping[str, Any], status: int = 200) -> Response: ...


def environment() -> Environment:
    """Autoescape is on for every template, whatever its name; a name that is not given is an error, not a blank."""
    found = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    names = (
        "percent",
        "percent_range",
        "indented",
        "points",
        "points_range",
        "count",
        "seconds",
        "money",
        "moment",
        "iso",
        "words",
        "step",
    )
    found.filters.update({name: getattr(formats, name) for name in names})
    found.filters.update(
        ago=formats.ago, probability=formats.probability, visible=marking.visible, plain=marking.plain
    )
    found.filters["json"] = json.dumps
    found.globals.update(href=href, strip=charts.strip, nice_top=charts.nice_top, csrf_field=CSRF_FIELD)
    return found


def carried(asked: Mapping[str, str]) -> dict[str, str]:
    """The filters among the parameters of an address."""
    return {name: asked[name] for name in CARRIED if asked.get(name)}


def href(path: str, **parameters: object) -> str:
    """Address of *path* with the parameters that have a value."""
    held = {key: value for key, value in parameters.items() if value not in ("", None)}
    return quote(path, safe="/") + (f"?{urlencode(held)}" if held else "")


def respond(
    templates: Environment, request: Request, name: str, context: Mapping[str, Any], status: int = 200
) -> HTMLResponse:
    """Render *name*, and give the browser its form token when it has none."""
    token = csrf_token(request)
    response = HTMLResponse(templates.get_template(name).render(csrf=token, **context), status)
    set_cookie(response, request, CSRF_COOKIE, token)
    return response


def set_cookie(response: Any, request: Request, name: str, value: str, max_age: int | None = None) -> None:
    secure = request.url.scheme == "https"
    name = cookie_name(request, name)
    response.set_cookie(name, value, max_age=max_age, httponly=True, samesite="strict", secure=secure, path="/")


def remove_cookie(response: Any, request: Request, name: str) -> None:
    set_cookie(response, request, name, "", 0)
