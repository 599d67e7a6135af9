"""The few pages of the API itself. They load nothing from elsewhere and run no script but their own."""

import json
from collections.abc import Mapping
from functools import cache
from importlib import resources

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from rota.interfaces.http.openapi import build_document
from rota.interfaces.operations.catalogue import OPERATIONS

PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
FILES: Mapping[str, tuple[str, str]] = {
    "/docs": ("docs.html", "text/html"),
    "/docs/docs.js": ("docs.js", "text/javascript"),
    "/docs/docs.css": ("docs.css", "text/css"),
}


class Page:
    """One file of the package."""

    def __init__(self, file: str, media_type: str) -> None:
        folder = resources.files("rota.interfaces.http").joinpath("static")
        self._content = folder.joinpath(file).read_bytes()
        self._media_type = media_type

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # fixed signature: ASGI
        headers = {"Content-Security-Policy": PAGE_POLICY, "Cache-Control": "no-cache"}
        await Response(self._content, headers=headers, media_type=self._media_type)(scope, receive, send)


async def serve_openapi(_request: Request) -> Response:
    """The description of the API, made when it is first asked for."""
    return Response(_describe_api(), headers={"Cache-Control": "no-cache"}, media_type="application/json")


@cache
def _describe_api() -> bytes:
    return json.dumps(build_document(OPERATIONS)).encode()
