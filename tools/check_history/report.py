"""A judgement in words."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence

from tools.check_history.history import Line
from tools.check_history.judge import Judgement, Verdict, list_missing
from tools.check_history.verdict import Ruling

MOST_FLAWS = 20
WORDS = {
    Verdict.KEPT: "every promise that was judged is kept",
    Verdict.BROKEN: "a promise is broken",
    Verdict.TOO_THIN: "too thin to prove anything",
    Verdict.UNKNOWN: "unknown, since the history is not whole: what looks broken may be what is missing",
}


def describe(judgement: Judgement, *, is_calm: bool = False) -> Iterator[str]:
    """Line by line: each promise, what is wrong with it or with the history, and the verdict."""
    yield from map(_describe_ruling, judgement.rulings)
    for violation in judgement.violations:
        yield from _describe_finding(f"{violation.invariant}: {violation.what}", violation.witness)
    for flaw in judgement.flaws[:MOST_FLAWS]:
        yield from _describe_finding(f"{flaw.where}: {flaw.what}", flaw.witness)
    if len(judgement.flaws) > MOST_FLAWS:
        yield f"… and {len(judgement.flaws) - MOST_FLAWS} more lines that are wrong or missing"
    yield from describe_seen(judgement.seen)
    yield f"verdict: {WORDS[judgement.verdict(is_calm=is_calm)]}"


def describe_seen(seen: Counter[str]) -> Iterator[str]:
    """What happened, and what of it never did."""
    yield "seen: " + ", ".join(f"{count} x {what}" for what, count in seen.items())
    if missing := list_missing(seen):
        yield "never happened, so nothing is proven about it: " + ", ".join(missing)


def describe_need(need: str) -> str:
    """In the words of the reference: `cancel:ok` are `cancel` lines of the type ok."""
    op, _, name = need.partition(".")
    op, _, kind = op.partition(":")
    return f"`{op}`" + (f" of type `{kind}`" if kind else "") + (f" with `{name}`" if name else "")


def _describe_ruling(ruling: Ruling) -> str:
    lacking = ", ".join(map(describe_need, ruling.lacking))
    needs = f" (no line {lacking})" if lacking else ""
    return f"{ruling.promise.name:>4}  {ruling.word:<10}  {ruling.promise.text}{needs}"


def _describe_finding(what: str, witness: Sequence[Line]) -> Iterator[str]:
    yield f"\n{what}"
    yield from (f"    {json.dumps(line)}" for line in witness)
