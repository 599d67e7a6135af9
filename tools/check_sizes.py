"""Keep functions, modules and signatures small: `python tools/check_sizes.py [folder ...]`.

Four rules, each reported as `path:line: what`:

- a function body has at most 40 lines, its docstring not counted;
- a module has at most 500 lines;
- a function takes at most 5 parameters, and those after the second are keyword-only;
- a TODO names its issue: `TODO(#123)`.

`self`, `cls`, `*args` and `**kwargs` are not counted. Tests, fixtures and Hypothesis rules are called by name, so their
order is free. A signature that someone else dictates is left alone: a special method, or a callback that is marked
`# fixed signature: who calls it` on one of the lines of its `def`.
"""

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

MAX_BODY_LINES = 40
MAX_MODULE_LINES = 500
MAX_PARAMETERS = 5
MAX_POSITIONAL = 2

FOLDERS = ("src", "tests", "tools", "bench", "examples")
CALLED_BY_NAME = frozenset({"fixture", "given", "initialize", "invariant", "rule"})
FIXED_SIGNATURE = re.compile(r"#\s*fixed signature: \S")
TODO_WITHOUT_NUMBER = re.compile(r"\b(TODO|FIXME)\b(?!\(#\d+\))")

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """One broken rule, at the place to change."""

    path: Path
    line: int
    what: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.what}"


def main(arguments: Sequence[str]) -> int:
    folders = [Path(name) for name in arguments or FOLDERS]
    paths = sorted(path for folder in folders for path in folder.rglob("*.py"))
    findings = sorted(finding for path in paths for finding in check(path, path.read_text("utf-8")))
    for finding in findings:
        print(finding)
    print(f"{len(findings)} too large or unnumbered" if findings else f"{len(paths)} files within the limits")
    return 1 if findings else 0


def check(path: Path, source: str) -> Iterator[Finding]:
    """Every rule that this module breaks, in no particular order."""
    lines = source.splitlines()
    if len(lines) > MAX_MODULE_LINES:
        yield Finding(path, MAX_MODULE_LINES + 1, f"module has {len(lines)} lines, at most {MAX_MODULE_LINES}")
    for line, comment in _list_comments(source):
        if TODO_WITHOUT_NUMBER.search(comment):
            yield Finding(path, line, "write the number of the issue: TODO(#123)")
    for function, is_method in _list_functions(ast.parse(source)):
        for what in (_judge_body(function), _judge_parameters(function, is_method=is_method, lines=lines)):
            if what is not None:
                yield Finding(path, function.lineno, f"{function.name} {what}")


def _list_comments(source: str) -> Iterator[tuple[int, str]]:
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def _list_functions(tree: ast.Module) -> Iterator[tuple[Function, bool]]:
    methods = {id(item) for node in ast.walk(tree) if isinstance(node, ast.ClassDef) for item in node.body}
    for node in ast.walk(tree):
        if isinstance(node, Function):
            yield node, id(node) in methods and "staticmethod" not in _decorator_names(node)


def _judge_body(function: Function) -> str | None:
    body = function.body[1:] if ast.get_docstring(function, clean=False) is not None else function.body
    if not body:
        return None
    length = (body[-1].end_lineno or body[-1].lineno) - body[0].lineno + 1
    return f"has {length} lines, at most {MAX_BODY_LINES}" if length > MAX_BODY_LINES else None


def _judge_parameters(function: Function, *, is_method: bool, lines: Sequence[str]) -> str | None:
    if _has_fixed_signature(function, lines):
        return None
    positional = len(function.args.posonlyargs) + len(function.args.args) - is_method
    total = positional + len(function.args.kwonlyargs)
    if total > MAX_PARAMETERS:
        return f"takes {total} parameters, at most {MAX_PARAMETERS}: group them in a frozen dataclass"
    if positional > MAX_POSITIONAL and not _is_called_by_name(function):
        return f"takes {positional} positional parameters, at most {MAX_POSITIONAL}: put a * after the second"
    return None


def _has_fixed_signature(function: Function, lines: Sequence[str]) -> bool:
    head = lines[function.lineno - 1 : function.body[0].lineno]
    is_special = function.name.startswith("__") and function.name.endswith("__")
    return (is_special and function.name not in {"__init__", "__call__"}) or any(map(FIXED_SIGNATURE.search, head))


def _is_called_by_name(function: Function) -> bool:
    return function.name.startswith("test_") or not CALLED_BY_NAME.isdisjoint(_decorator_names(function))


def _decorator_names(function: Function) -> set[str]:
    """The last part of each decorator: `fixture` for `@pytest.fixture(scope="session")`."""
    calls = [node.func if isinstance(node, ast.Call) else node for node in function.decorator_list]
    return {ast.unparse(call).rpartition(".")[2] for call in calls}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
