"""Objects of Kubernetes: what they start, ask, refer to and wait for."""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tools.check_deploy.product import (
    METRICS,
    PROBES,
    VERSION,
    Launch,
    check_launch,
    drains_within,
    fits_memory,
    is_monitored_from_outside,
    keeps_results,
    ports_of,
    settings_of,
)

Object = Mapping[str, Any]
Secrets = Mapping[str, str]  # of the one Secret that the objects refer to, by key
WITH_PODS = frozenset({"Deployment", "Job"})
CHECKSUM = "checksum/settings"
FIELDS = {"metadata.name": "pod-1"}  # what a field of a pod may say


def check_objects(objects: Sequence[Object], secrets: Secrets) -> Iterator[str]:
    for one in objects:
        place = f"{one['kind']} {one['metadata']['name']}"
        if "namespace" in one["metadata"]:
            yield f"{place}: names its namespace"
        if one["kind"] in WITH_PODS:
            yield from _check_pod(one["spec"]["template"]["spec"], place, objects=objects, secrets=secrets)
            yield from _check_settings(one["spec"]["template"], place)
        yield from _check_selector(one, place, objects=objects)
        if one["kind"] == "HorizontalPodAutoscaler":
            yield from _check_autoscaler(one, place, objects=objects)


def _check_pod(pod: Object, place: str, *, objects: Sequence[Object], secrets: Secrets) -> Iterator[str]:
    (container,) = pod["containers"]
    yield from _check_security(pod, container, place=place)
    if not container["image"].endswith(f":{VERSION}"):
        yield f"{place}: its image is {container['image']}, this release is {VERSION}"
    memory = container.get("resources", {}).get("limits", {}).get("memory")
    if memory is None:
        yield f"{place}: has no limit of memory"
    accounts = {one["metadata"]["name"] for one in objects if one["kind"] == "ServiceAccount"}
    if pod.get("serviceAccountName") not in {None, *accounts}:
        yield f"{place}: its service account is nowhere"
    variables = {one["name"]: _value_of(one, secrets) for one in container.get("env", ())}
    if missing := sorted(name for name, value in variables.items() if value is None):
        yield f"{place}: nothing says the value of {', '.join(missing)}"
    given = {name: value for name, value in variables.items() if value is not None}
    with tempfile.TemporaryDirectory() as folder:
        file = _write_settings(pod, objects, folder=Path(folder))
        launch = Launch(place, container["args"], given, file)
        yield from check_launch(launch)
        yield from fits_memory(launch, memory)
        yield from keeps_results(launch, {one["mountPath"] for one in container["volumeMounts"]})
        if file is not None and not _reads_settings(container, given):
            yield f"{place}: ROTA_CONFIG does not name its settings, so that commands beside it would read others"
        if "terminationGracePeriodSeconds" in pod:
            yield from drains_within(launch, pod["terminationGracePeriodSeconds"] - _pre_stop_s(container))
        yield from _check_probes(container, launch)


def _check_settings(template: Object, place: str) -> Iterator[str]:
    """Whoever has settings mounted is replaced when one changes that is not live."""
    has_settings = any("configMap" in one for one in template["spec"].get("volumes", ()))
    if has_settings and CHECKSUM not in template["metadata"].get("annotations", {}):
        yield f"{place}: goes on with its settings when others are installed: it has no {CHECKSUM}"


def _check_security(pod: Object, container: Object, *, place: str) -> Iterator[str]:
    wanted = {
        "runAsNonRoot": pod.get("securityContext", {}).get("runAsNonRoot") is True,
        "seccompProfile": "seccompProfile" in pod.get("securityContext", {}),
        "readOnlyRootFilesystem": container.get("securityContext", {}).get("readOnlyRootFilesystem") is True,
        "no escalation": container.get("securityContext", {}).get("allowPrivilegeEscalation") is False,
        "no capabilities": container.get("securityContext", {}).get("capabilities", {}).get("drop") == ["ALL"],
        "no token": pod.get("automountServiceAccountToken") is False,
    }
    yield from (f"{place}: lacks {name}" for name, is_so in wanted.items() if not is_so)


def _value_of(variable: Object, secrets: Secrets) -> str | None:
    if "value" in variable:
        return str(variable["value"])
    source = variable["valueFrom"]
    if "secretKeyRef" in source:
        return secrets.get(source["secretKeyRef"]["key"])
    return FIELDS.get(source.get("fieldRef", {}).get("fieldPath", ""))


def _write_settings(pod: Object, objects: Sequence[Object], *, folder: Path) -> Path | None:
    """The settings file that the pod has mounted, if it has one."""
    named = {one["configMap"]["name"] for one in pod.get("volumes", ()) if "configMap" in one}
    for one in objects:
        if one["kind"] == "ConfigMap" and one["metadata"]["name"] in named:
            file = folder / "rota.yaml"
            file.write_text(one["data"]["rota.yaml"], "utf-8")
            return file
    return None


def _reads_settings(container: Object, variables: Mapping[str, str]) -> bool:
    """Whether every command in the container finds the settings that are mounted."""
    folders = {one["mountPath"] for one in container["volumeMounts"] if one["name"] == "settings"}
    return variables.get("ROTA_CONFIG") in {f"{folder}/rota.yaml" for folder in folders}


def _pre_stop_s(container: Object) -> float:
    command = container.get("lifecycle", {}).get("preStop", {}).get("exec", {}).get("command", [])
    return float(command[1]) if command[:1] == ["sleep"] else 0.0


def _check_probes(container: Object, launch: Launch) -> Iterator[str]:
    settings = settings_of(launch)
    ports = {one["name"]: one["containerPort"] for one in container.get("ports", ())}
    if settings is not None and ports != ports_of(launch):
        yield f"{launch.place}: its ports are {ports}, and the settings say otherwise"
    if "monitor" in ports and not is_monitored_from_outside(launch):
        yield f"{launch.place}: nobody outside of the pod reaches its port monitor"
    for kind in ("startupProbe", "livenessProbe", "readinessProbe"):
        asked = container.get(kind, {}).get("httpGet", {})
        if asked and asked["path"] not in PROBES:
            yield f"{launch.place}: there is no {asked['path']} for its {kind}"
        if asked and asked["port"] not in ports:
            yield f"{launch.place}: its {kind} asks the port {asked['port']}"
        hosts = settings.api.hosts if settings is not None and asked.get("port") == "http" else ()
        sent = {one["value"] for one in asked.get("httpHeaders", ()) if one["name"] == "Host"}
        if asked and hosts and not sent & set(hosts):
            yield f"{launch.place}: its {kind} is turned away, since api.hosts does not know the address of a pod"
    if ports and "readinessProbe" not in container:
        yield f"{launch.place}: serves, and nobody asks whether it is ready"


def _check_selector(one: Object, place: str, *, objects: Sequence[Object]) -> Iterator[str]:
    """Whoever chooses pods by labels finds some."""
    selector = one.get("spec", {}).get("podSelector") or one.get("spec", {}).get("selector")
    if not selector:
        return
    wanted = selector.get("matchLabels", selector) if isinstance(selector, dict) else {}
    wanted = {name: value for name, value in wanted.items() if isinstance(value, str)}
    pods = [each["spec"]["template"]["metadata"]["labels"] for each in objects if each["kind"] in WITH_PODS]
    own = [one["spec"]["template"]["metadata"]["labels"]] if one["kind"] in WITH_PODS else pods
    if not any(wanted.items() <= labels.items() for labels in own):
        yield f"{place}: chooses no pod"


def _check_autoscaler(one: Object, place: str, *, objects: Sequence[Object]) -> Iterator[str]:
    target = one["spec"]["scaleTargetRef"]["name"]
    scaled = [each for each in objects if each["kind"] == "Deployment" and each["metadata"]["name"] == target]
    if not scaled:
        yield f"{place}: scales {target}, which is nowhere"
    if any("replicas" in each["spec"] for each in scaled):
        yield f"{place}: {target} says its replicas too, and every upgrade would undo what was scaled"
    for metric in one["spec"]["metrics"]:
        name = metric["external"]["metric"]["name"]
        if name not in METRICS:
            yield f"{place}: {name} is no metric"
