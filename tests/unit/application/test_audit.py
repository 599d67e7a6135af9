"""What is kept of what somebody asks for."""

from rota.application.audit import Actor, ReadAudit, record
from rota.domain.audit import AuditFilter
from rota.domain.ids import TenantId
from tests.support.builders import a_token
from tests.support.virtual import a_bench, virtually

TENANT = TenantId("shop")


@virtually
async def test_an_entry_says_who_asked_for_what_and_when() -> None:
    bench = await a_bench()
    ada = Actor(tenant_id=TENANT, name="ada", address="192.0.2.7", token_id="17")
    [entry] = record(bench.node, ada, action="task.cancel", subject=7, detail="one of them")
    assert (entry.tenant_id, entry.actor, entry.address) == (TENANT, "ada", "192.0.2.7")
    assert entry.token_id == "17"
    assert (entry.action, entry.object, entry.detail) == ("task.cancel", "7", "one of them")
    assert entry.at == bench.clock.now()


@virtually
async def test_each_entry_has_an_id_of_its_own() -> None:
    bench = await a_bench()
    ada = Actor(tenant_id=TENANT, name="ada")
    entries = [record(bench.node, ada, action="task.cancel", subject=7)[0] for _ in range(3)]
    assert len({entry.id for entry in entries}) == 3


@virtually
async def test_what_the_program_does_by_itself_leaves_no_entry() -> None:
    bench = await a_bench()
    assert record(bench.node, None, action="task.cancel", subject=7) == ()


@virtually
async def test_texts_that_no_store_holds_are_made_fit() -> None:
    bench = await a_bench()
    odd = Actor(tenant_id=TENANT, name="\x00" * 300, address="\ud800" * 300)
    [entry] = record(bench.node, odd, action="a" * 100, subject="b" * 300, detail="c" * 3000)
    lengths = [len(text) for text in (entry.actor, entry.address, entry.action, entry.object, entry.detail)]
    assert lengths == [200, 255, 63, 200, 2000]
    assert "\x00" not in entry.actor
    assert "\ud800" not in entry.address


@virtually
async def test_the_record_is_read_in_bounded_pages_newest_first() -> None:
    bench = await a_bench()
    ada = Actor(tenant_id=TENANT, name="ada")
    entries = [record(bench.node, ada, action="token.create", subject=number)[0] for number in range(3)]
    await bench.node.store.tokens.add(a_token("1"), audit=entries)
    reader = ReadAudit(bench.node.store.audit)
    first = await reader.search(AuditFilter(tenant_id=TENANT, limit=2))
    rest = await reader.search(AuditFilter(tenant_id=TENANT, below=first.next_below))
    assert [*first.items, *rest.items] == entries[::-1]
    assert rest.next_below is None
