"""Operations on tokens, and the record of who changed what."""

from rota.domain.access import Role, parse_role
from rota.domain.errors import InvalidError, NotFoundError
from rota.domain.ids import parse_id
from rota.interfaces.operations import read, render
from rota.interfaces.operations.operation import Call, NoQuery, Operation, Reply
from rota.interfaces.operations.queries import ListAuditQuery, ListQuery
from rota.wire import access as wire
from rota.wire.base import Page


async def create_token(call: Call[NoQuery, wire.CreateToken]) -> Reply:
    token, secret = await call.services.tokens.issue(
        tenant_id=call.tenant_id,
        name=call.body.name,
        role=parse_role("role", call.body.role),
        expires_in=read.optional_seconds("expires_in_seconds", call.body.expires_in_seconds),
        actor=call.actor,
    )
    return Reply(201, wire.NewToken(token=render.token_answer(token), secret=secret))


async def list_tokens(call: Call[ListQuery, None]) -> Reply:
    limit, after = call.query.limit, read.text_cursor(call.query.cursor)
    found = await call.services.tokens.list(call.tenant_id, after=after, limit=limit)
    following = read.cursor_after(found, limit, place=lambda token: token.id)
    items = [render.token_answer(token) for token in found]
    return Reply(200, Page[wire.Token](items=items, next_cursor=following))


async def revoke_token(call: Call[NoQuery, None]) -> Reply:
    token_id = call.path["id"]
    try:
        parse_id("id", token_id)
    except InvalidError as exc:  # also what a database would not take as text
        raise NotFoundError("token", ascii(token_id[:40])) from exc
    await call.services.tokens.revoke(token_id, call.tenant_id, actor=call.actor)
    return Reply(204)


async def list_audit(call: Call[ListAuditQuery, None]) -> Reply:
    found = await call.services.audit.search(read.audit_filter(call.query, call.tenant_id))
    following = None if found.next_below is None else read.write_cursor(found.next_below)
    items = [render.audit_answer(entry) for entry in found.items]
    return Reply(200, Page[wire.AuditEntry](items=items, next_cursor=following))


OPERATIONS = (
    Operation(
        name="create_token",
        method="POST",
        path="/tokens",
        summary="Issue a token; its secret is shown this once.",
        role=Role.ADMIN,
        handler=create_token,
        body=wire.CreateToken,
        answers={201: wire.NewToken},
    ),
    Operation(
        name="list_tokens",
        method="GET",
        path="/tokens",
        summary="List the tokens, without their secrets.",
        role=Role.ADMIN,
        handler=list_tokens,
        query=ListQuery,
        answers={200: Page[wire.Token]},
    ),
    Operation(
        name="revoke_token",
        method="DELETE",
        path="/tokens/{id}",
        summary="Revoke a token; within five seconds no node accepts it.",
        role=Role.ADMIN,
        handler=revoke_token,
        answers={204: None},
        errors=("token_not_found",),
    ),
    Operation(
        name="list_audit",
        method="GET",
        path="/audit",
        summary="List who changed what, newest first.",
        role=Role.ADMIN,
        handler=list_audit,
        query=ListAuditQuery,
        answers={200: Page[wire.AuditEntry]},
    ),
)
