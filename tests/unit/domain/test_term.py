from rota.domain.term import Term


def test_trust_is_counted_from_when_the_leader_asked() -> None:
    term = Term.won(7, asked_at=100.0, ttl=6.0, margin=1.0)

    assert term.is_trusted(104.9)
    assert not term.is_trusted(105.0)


def test_a_lease_shorter_than_the_margin_is_never_trusted() -> None:
    assert not Term.won(7, asked_at=100.0, ttl=0.5, margin=1.0).is_trusted(100.0)
