"""Files in deploy/ that nobody can run here: what they name exists, and a mistake in them is found."""

import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from tools.check_deploy.chart import check_chart, read_scaled
from tools.check_deploy.compose import UnsetError, check_compose, interpolate
from tools.check_deploy.kubernetes import check_objects
from tools.check_deploy.outside import Outside
from tools.check_deploy.product import check_words
from tools.check_deploy.units import PROGRAM, check_units

ROOT = Path(__file__).parents[3]
DEPLOY = ROOT / "deploy"
NOTHING = Outside(Path("/nonexistent"))  # our own rules alone
SECRETS = {"store-url": "postgresql://db/rota", "coordinator-url": "redis://redis:6379/0"}


@pytest.mark.parametrize("guide", ["deploy-with-compose", "deploy-on-kubernetes"])
def test_tasks_of_an_image_are_where_modules_are_looked_for_and_no_volume_hides_them(guide: str) -> None:
    recipe = (ROOT / "docs" / "guides" / f"{guide}.md").read_text("utf-8")
    (place,) = re.findall(r"^COPY shop (\S+)/shop$", recipe, re.MULTILINE)
    assert f"PYTHONPATH={place} " in (DEPLOY / "Dockerfile").read_text("utf-8")
    manifests = [path.read_text("utf-8") for path in (DEPLOY / "kubernetes").glob("*.yaml")]
    mounts = {mount for text in manifests for mount in re.findall(r"mountPath: ([^\s,}]+)", text)}
    assert "/var/lib/rota" in mounts
    assert not [mount for mount in mounts if f"{place}/".startswith(f"{mount}/")]


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """deploy/, to be spoilt."""
    return Path(shutil.copytree(DEPLOY, tmp_path / "deploy"))


def spoil(path: Path, *, old: str, new: str) -> None:
    text = path.read_text("utf-8")
    assert old in text, "there is nothing to spoil"
    path.write_text(text.replace(old, new), "utf-8")


def all_problems(folder: Path, check: Callable[[Path], Iterator[str]]) -> str:
    return "\n".join(check(folder))


@pytest.mark.parametrize("topology", ["redis-mysql", "postgres", "etcd"])
def test_each_topology_of_the_compose_file_starts_only_what_is_there(topology: str) -> None:
    assert (DEPLOY / "env" / f"{topology}.env").exists()
    assert list(check_compose(DEPLOY)) == []


def test_a_proxys_names_are_known_beside_that_of_the_scheduler(copy: Path) -> None:
    for topology in (copy / "env").glob("*.env"):
        topology.write_text(topology.read_text("utf-8") + "HOSTS=rota.example.com\n", "utf-8")
    assert list(check_compose(copy)) == []


def test_how_many_workers_there_are_is_said_where_every_start_reads_it() -> None:
    worker = yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))["services"]["worker"]
    replicas = worker["deploy"]["replicas"]
    assert (interpolate(replicas, {}), interpolate(replicas, {"WORKERS": "6"})) == ("3", "6")


def test_the_units_start_what_there_is() -> None:
    assert list(check_units(DEPLOY / "systemd")) == []


def test_commands_by_hand_run_as_the_units_do() -> None:
    guide = (ROOT / "docs" / "guides" / "deploy-with-systemd.md").read_text("utf-8")
    (command,) = re.findall(r'^# rota\(\) \{ systemd-run (.*?) "\$@"; \}$', guide, re.MULTILINE | re.DOTALL)
    *options, program = command.replace("\\\n", "").split()
    unit = (DEPLOY / "systemd" / "rota-upgrade.service").read_text("utf-8").splitlines()
    given = dict(option.removeprefix("--").partition("=")[::2] for option in options)
    assert program == PROGRAM
    assert given["property"] in unit
    names = {"uid": "User", "gid": "Group", "working-directory": "WorkingDirectory", "setenv": "Environment"}
    assert {f"{name}={given[option]}" for option, name in names.items()} <= set(unit)


def test_the_manifests_are_sound() -> None:
    assert list(check_chart(DEPLOY, NOTHING)) == []


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("ROTA_WORKER__CAPACITY", "ROTA_WORKER__CAPCITY", "unknown setting ROTA_WORKER__CAPCITY"),
        ("ROTA_URL: http", "ROTA_ADDRESS: http", "ROTA_ADDRESS is neither a setting"),
        ('ROTA_WORKER__CAPACITY: "10"', 'ROTA_WORKER__CAPACITY: "many"', "worker.capacity"),
        ("command: [worker, --app,", "command: [worker, --apps,", "--apps"),
        ("command: [cluster]", "command: [clusters]", "no command rota clusters"),
        ("stop_grace_period: 50s", "stop_grace_period: 40s", "may need 45 s to drain"),
        (":-8420}:8420", ":-8420}:8080", "nobody listens at its port 8080"),
        ("127.0.0.1:${API_PORT", "0.0.0.0:${API_PORT", "reachable from other machines"),
        ("http://scheduler:8420", "http://server:8420", "which does not run in this topology"),
        ("scheduler,${HOSTS", "${HOSTS", "client: http://scheduler:8420 is refused"),
        ("health], interval", "health, --url, http://rota:8420], interval", "http://rota:8420, a name that it does"),
        ("healthcheck: {test: [CMD, rota", "healthy: {test: [CMD, rota", "scheduler: has no health check"),
        ('"http://127.0.0.1:8422"', '"http://127.0.0.1:8420"', "worker: its health check asks the port 8420"),
        ("health], interval", "health, --url, http://127.0.0.1:80], interval", "health check asks the port 80"),
        (", resources: {limits: {cpus: \"1\", memory: 1G}}}", "}", "worker: has no limits"),
        ("memory: 1G}}}", "memory: 512M}}}", "worker: may use 512M of memory, but its 10 tasks need 768 MiB"),
        ('ROTA_WORKER__CAPACITY: "10"', 'ROTA_WORKER__CAPACITY: "20"', "may use 1G of memory, but its 20 tasks need"),
        ('["mysql:/var/lib/mysql"]', '["data:/var/lib/mysql"]', "is not declared"),
        ("rota:0.1.0}", "rota:0.0.9}", "this release is"),
        ("image: rota:0.1.0", "image: rota:0.0.9", "rota: its image is rota:0.0.9, this release is"),
        ("image: rota:0.1.0", "image: ${IMAGE:-rota:0.1.0}", "would take the name of the user's image"),
        ("      ROTA_WORKER__SPOOL: *spool\n", "", "worker: results that wait for the store end with it"),
        ("    volumes: *spools\n", "", "worker: results that wait for the store end with it"),
        ("--host=127.0.0.1, ", "", "postgres: its health check asks the socket"),
        ("    user: redis ", "    # ", "redis: an image leaves root for its own server alone"),
    ],
)  # fmt: skip
def test_a_mistake_in_the_compose_file_is_found(copy: Path, *, old: str, new: str, problem: str) -> None:
    spoil(copy / "compose.yaml", old=old, new=new)
    assert problem in all_problems(copy, check_compose)


def test_variables_are_filled_in_as_compose_does_it() -> None:
    assert interpolate("a${X}b${Y:-c}$$d${Z:-}", {"X": "1"}) == "a1bc$d"
    with pytest.raises(UnsetError, match="X"):
        interpolate("${X:?say it}", {})


@pytest.mark.parametrize(
    ("name", "old", "new", "problem"),
    [
        ("rota-worker@.service", "ROTA_WORKER__SPOOL", "ROTA_WORKER__SPOOLS", "unknown setting ROTA_WORKER__SPOOLS"),
        ("rota-server.service", "Environment=ROTA_WORKER__SPOOL", "# ", "results that wait for the store end with it"),
        ("rota-worker@.service", "StateDirectory=rota", "StateDirectory=rotas", "results that wait for the store end"),
        ("rota-api.service", "bin/rota api", "bin/rota web", "no command rota web"),
        ("rota-server.service", "TimeoutStopSec=60", "TimeoutStopSec=30", "may need 45 s to drain"),
        ("rota-api.service", "EnvironmentFile=/", "EnvironmentFile=-/", "starts without its EnvironmentFile"),
        ("rota-server.service", "Type=exec", "Type=notify", "which Rota does not do"),
        ("rota.yaml", "drain_timeout: 30s", "drain_timeout: 5m", "may need 315 s to drain"),
        ("rota.env", "postgresql://", "oracle://", "oracle"),
    ],
)
def test_a_mistake_in_a_unit_is_found(copy: Path, *, name: str, old: str, new: str, problem: str) -> None:
    spoil(copy / "systemd" / name, old=old, new=new)
    assert problem in all_problems(copy / "systemd", check_units)


@pytest.mark.parametrize(
    ("name", "old", "new", "problem"),
    [
        ("server.yaml", "path: /readyz", "path: /healthz", "there is no /healthz for its readinessProbe"),
        (
            "server.yaml",
            "value: /etc/rota/rota.yaml",
            "value: /etc/rota.yaml",
            "ROTA_CONFIG does not name its settings",
        ),
        ("server.yaml", "containerPort: 8420", "containerPort: 8080", "the settings say otherwise"),
        ("server.yaml", "terminationGracePeriodSeconds: 55", "terminationGracePeriodSeconds: 50", "may need 45 s"),
        ("server.yaml", "readOnlyRootFilesystem: true", "readOnlyRootFilesystem: false", "lacks readOnlyRoot"),
        ("server.yaml", "checksum/settings", "checksum/other", "goes on with its settings when others are installed"),
        ("worker.yaml", "mountPath: /var/lib/rota", "mountPath: /var/lib/other", "results that wait for the store end"),
        ("worker.yaml", "memory: 1Gi", "memory: 512Mi", "may use 512Mi of memory, but its 10 tasks need 768 MiB"),
        ("server.yaml", 'value: "10"', 'value: "20"', "may use 1Gi of memory, but its 20 tasks need 1408 MiB"),
        ("worker.yaml", "key: store-url", "key: store", "nothing says the value of ROTA_STORE__URL"),
        ("worker.yaml", "component: worker\n  template", "component: works\n  template", "chooses no pod"),
        ("autoscaling/kustomization.yaml", "/spec/replicas", "/spec/paused", "every upgrade would undo"),
        ("worker.yaml", "path: /readyz", "path: /ready", "there is no /ready for its readinessProbe"),
        ("worker.yaml", "containerPort: 8422", "containerPort: 8420", "the settings say otherwise"),
        ("configmap.yaml", "port: 8422", "port: null", "the settings say otherwise"),
        (
            "configmap.yaml",
            "monitor:\n      host: 0.0.0.0",
            "monitor:\n      host: 127.0.0.1",
            "reaches its port monitor",
        ),
        ("autoscaling/worker-hpa.yaml", "rota_queue_length", "rota_queue_size", "rota_queue_size is no metric"),
        ("configmap.yaml", "hosts: []", "hosts: [rota.example.com]", "is turned away"),
        ("configmap.yaml", "grpc_port", "grpc", "unknown setting api.grpc"),
    ],
)
def test_a_mistake_in_a_manifest_is_found(copy: Path, *, name: str, old: str, new: str, problem: str) -> None:
    spoil(copy / "kubernetes" / name, old=old, new=new)
    assert problem in "\n".join(check_objects(read_scaled(copy / "kubernetes"), SECRETS))


def test_no_autoscaler_is_applied_but_on_purpose() -> None:
    kustomization = yaml.safe_load((DEPLOY / "kubernetes" / "kustomization.yaml").read_text("utf-8"))
    assert "components" not in kustomization
    worker = (DEPLOY / "kubernetes" / "worker.yaml").read_text("utf-8")
    assert "kind: HorizontalPodAutoscaler" not in worker
    assert "  replicas: 3\n" in worker


def test_names_in_a_text_are_looked_up() -> None:
    assert list(check_words("ROTA_STORE__URL and rota_queue_length", "x")) == []
    assert list(check_words("ROTA_STORE__URI and rota_queue_size", "x")) == [
        "x: ROTA_STORE__URI is no setting",
        "x: rota_queue_size is no metric",
    ]
