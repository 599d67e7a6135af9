"""The console: files that were built from web/ into the package, and the page that loads them.

Addresses in it are relative, so that it works behind any path that a proxy puts in front. The name of a file changes
with its content, so browsers may keep it for ever; the page itself is made anew for each visit, because the styles that
the script adds are let in by a number that nobody can know before.
"""

import gzip
import mimetypes
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import resources
from importlib.resources.abc import Traversable

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from rota.interfaces.http.body import find_header
from rota.interfaces.http.pages import PAGE_POLICY, Page

FOLDER = "_console"
FRONT, PACKED = "index.html", ".gz"
NONCE = b"rota-nonce"  # what stands in the page for the number
NONCE_BYTES = 18
FOR_EVER = "public, max-age=31536000, immutable"
A_DAY = "public, max-age=86400"


@dataclass(frozen=True, slots=True)
class Asset:
    """One file, held compressed."""

    path: str
    packed: bytes = field(repr=False)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # fixed signature: ASGI
        keep = FOR_EVER if self.path.startswith("/assets/") else A_DAY
        headers = {"Cache-Control": keep, "Vary": "Accept-Encoding"}
        content = self.packed
        if "gzip" in (find_header(scope, b"accept-encoding") or ""):
            headers["Content-Encoding"] = "gzip"
        else:
            content = gzip.decompress(self.packed)
        media_type = mimetypes.guess_type(self.path)[0] or "application/octet-stream"
        await Response(content, headers=headers, media_type=media_type)(scope, receive, send)


class FrontPage:
    """The page of the console; where none was built, one that says how to get it."""

    def __init__(self) -> None:
        self._content = _folder().joinpath(FRONT).read_bytes() if is_built() else b""
        self._without = Page("index.html", "text/html")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # fixed signature: ASGI
        if not self._content:
            await self._without(scope, receive, send)
            return
        nonce = secrets.token_urlsafe(NONCE_BYTES)
        policy = PAGE_POLICY.replace("style-src 'self'", f"style-src 'self' 'nonce-{nonce}'")
        headers = {"Content-Security-Policy": policy, "Cache-Control": "no-store"}
        content = self._content.replace(NONCE, nonce.encode())
        await Response(content, headers=headers, media_type="text/html")(scope, receive, send)


def is_built() -> bool:
    """Whether this package has the console: a checkout has it after `make console`."""
    return _folder().joinpath(FRONT).is_file()


def list_assets() -> Sequence[Asset]:
    """All files that the page may load; none where nothing was built."""
    return [
        Asset(path.removesuffix(PACKED), file.read_bytes())
        for path, file in (_walk(_folder(), "") if is_built() else [])
        if path.endswith(PACKED)
    ]


def _walk(folder: Traversable, path: str) -> list[tuple[str, Traversable]]:
    found: list[tuple[str, Traversable]] = []
    for entry in folder.iterdir():
        below = f"{path}/{entry.name}"
        found += _walk(entry, below) if entry.is_dir() else [(below, entry)]
    return sorted(found, key=lambda pair: pair[0])


def _folder() -> Traversable:
    return resources.files("rota").joinpath(FOLDER)
