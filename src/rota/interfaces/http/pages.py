"""The few pages of the API itself. They load nothing from elsewhere and run no script but their own."""

import json
from collections.abc import Callable, Mapping
from importlib import resources
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

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


def serve_json(document: Mapping[str, Any]) -> Callable[[Request], Any]:
    """A document that does not change while the process runs."""
    content = json.dumps(document).encode()

    async def answer(_request: Request) -> Response:
        return Response(content, headers={"Cache-Control": "no-cache"}, media_type="application/json")

    return answer
