"""The chart, rendered by helm; and the manifests in deploy/kubernetes, which are that."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from rota.config.settings import SCHEMA
from tools.check_deploy.kubernetes import CHECKSUM, check_objects
from tools.check_deploy.outside import Outside
from tools.check_deploy.product import VERSION

CHART = Path("helm/rota")
HELPERS = Path("templates/_helpers.tpl")
MANIFESTS = Path("kubernetes")
SCALER = Path("autoscaling/worker-hpa.yaml")  # a component: it needs an adapter, which few have
SCALED = "worker.autoscaling.enabled=true"
NAME = "rota"
HEAD = "# Rendered from deploy/helm/rota by `make docs`; what to change is there.\n"
SOURCE = re.compile(r"^---\n# Source: rota/templates/(\S+)\n", re.MULTILINE)
HOOK = re.compile(r"^ +annotations:\n(?: +helm\.sh/\S+ .*\n)+", re.MULTILINE)  # helm's business alone
OWN = frozenset({"worker.capacity"})  # live settings for which the chart has values of its own
NOT_LIVE = "worker.lease"  # one of those that are not
LISTED = re.compile(r'"([a-z_]+\.[a-z_]+)"')
VARIANTS: Mapping[str, Sequence[str]] = {
    "as it comes": (),
    "scaled by the queue": (SCALED,),
    "with names": ("settings.api.hosts={rota.example.com}",),
    "on etcd": ("upgrade.enabled=false",),
    "open to others": ("networkPolicy.from[0].namespaceSelector.matchLabels.name=ingress", "image.tag=" + VERSION),
    "with files": (
        "env[0].name=SHOP,env[0].value=one",
        "volumes[0].name=tls,volumes[0].secret.secretName=tls",
        "volumeMounts[0].name=tls,volumeMounts[0].mountPath=/etc/rota-tls",
    ),
    "placed": ("nodeSelector.disk=ssd", "image.pullSecrets[0].name=mine", "podAnnotations.a=b"),
}


def check_chart(folder: Path, outside: Outside) -> Iterator[str]:
    about = yaml.safe_load((folder / CHART / "Chart.yaml").read_text("utf-8"))
    if about["appVersion"] != VERSION:
        yield f"Chart.yaml: appVersion is {about['appVersion']}, this release is {VERSION}"
    secrets = yaml.safe_load((folder / MANIFESTS / "secret.example.yaml").read_text("utf-8"))["stringData"]
    texts = {"deploy/kubernetes": _read_manifests(folder / MANIFESTS)}
    if outside.has("helm"):
        yield from outside.run("helm", "lint", "--strict", "--quiet", str(folder / CHART))
        for name, changes in VARIANTS.items():
            texts[f"chart {name}"], problems = _render(folder, outside, changes=changes)
            yield from (f"chart {name}: {problem}" for problem in problems)
        yield from _compare(folder, outside)
        yield from _check_replacement(folder, outside, text=texts["chart as it comes"])
    for name, text in texts.items():
        objects = [one for one in yaml.safe_load_all(text) if one]
        yield from (f"{name}: {problem}" for problem in check_objects(objects, secrets))
    scaled = read_scaled(folder / MANIFESTS)
    yield from (f"deploy/kubernetes with {SCALER.parent}: {problem}" for problem in check_objects(scaled, secrets))
    yield from outside.validate(texts)
    yield from _check_kustomization(folder / MANIFESTS)
    yield from _check_kustomization(folder / MANIFESTS / SCALER.parent)


def read_scaled(folder: Path) -> list[dict[str, Any]]:
    """The manifests with their component, as kustomize would join them."""
    text = "---\n".join((_read_manifests(folder), (folder / SCALER).read_text("utf-8")))
    objects = [one for one in yaml.safe_load_all(text) if one]
    component = yaml.safe_load((folder / SCALER.parent / "kustomization.yaml").read_text("utf-8"))
    for change in component["patches"]:
        (patched,) = (one for one in objects if change["target"].items() <= {**one, **one["metadata"]}.items())
        for step in yaml.safe_load(change["patch"]):
            _, part, field = step["path"].split("/")
            patched[part].pop(field, None)
    return objects


def _check_replacement(folder: Path, outside: Outside, *, text: str) -> Iterator[str]:
    """Pods are replaced for a change of the settings that they read when they start, and for no live one."""
    listed = set(LISTED.findall((folder / CHART / HELPERS).read_text("utf-8"))) & SCHEMA.keys()
    live = {key for key, entry in SCHEMA.items() if entry.is_live} - OWN
    if listed != live:
        yield f"chart: {HELPERS} lists other settings than the live ones: {', '.join(sorted(listed ^ live))}"
    for keys, is_live in ((sorted(live), True), ([NOT_LIVE], False)):
        changed, problems = _render(folder, outside, changes=[f"settings.{key}=1" for key in keys])
        yield from problems
        if (_checksums(changed) == _checksums(text)) != is_live:
            yield f"chart: a change of {', '.join(keys)} replaces {'' if is_live else 'no '}pods"


def _checksums(text: str) -> set[str]:
    pods = [one["spec"]["template"] for one in yaml.safe_load_all(text) if one and one["kind"] == "Deployment"]
    return {pod["metadata"].get("annotations", {}).get(CHECKSUM, "") for pod in pods}


def write_manifests(folder: Path, outside: Outside) -> None:
    """Render the chart into deploy/kubernetes."""
    for name, text in _manifests(folder, outside).items():
        (folder / MANIFESTS / name).write_text(text, "utf-8")


def _compare(folder: Path, outside: Outside) -> Iterator[str]:
    for name, text in _manifests(folder, outside).items():
        path = folder / MANIFESTS / name
        if not path.exists() or path.read_text("utf-8") != text:
            yield f"deploy/kubernetes/{name} is not what the chart says; try: make docs"


def _manifests(folder: Path, outside: Outside) -> dict[str, str]:
    scaler = _render_files(folder, outside, SCALED)[SCALER.name]
    return {**_render_files(folder, outside), str(SCALER): scaler}


def _render_files(folder: Path, outside: Outside, *changes: str) -> dict[str, str]:
    text, problems = _render(folder, outside, changes=changes)
    if problems:
        raise SystemExit("\n".join(problems))
    _, *parts = SOURCE.split(text)
    files: dict[str, str] = {}
    for name, part in zip(parts[::2], parts[1::2], strict=True):
        plain = HOOK.sub("", part).strip("\n") + "\n"
        files[name] = f"{files[name]}---\n{plain}" if name in files else f"{HEAD}{plain}"
    return files


def _render(folder: Path, outside: Outside, *, changes: Sequence[str] = ()) -> tuple[str, list[str]]:
    words = [word for change in changes for word in ("--set", change)]
    return outside.ask("helm", "template", NAME, str(folder / CHART), *words)


def _read_manifests(folder: Path) -> str:
    return "---\n".join(path.read_text("utf-8") for path in sorted(folder.glob("*.yaml")) if _is_object(path))


def _is_object(path: Path) -> bool:
    return path.name != "kustomization.yaml"


def _check_kustomization(folder: Path) -> Iterator[str]:
    named = set(yaml.safe_load((folder / "kustomization.yaml").read_text("utf-8"))["resources"])
    present = {path.name for path in folder.glob("*.yaml") if _is_object(path)} - {"secret.example.yaml"}
    if named != present:
        yield f"{folder.name}/kustomization.yaml: differs from the folder in {', '.join(sorted(named ^ present))}"
