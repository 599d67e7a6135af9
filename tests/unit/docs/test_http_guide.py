"""The pieces of `docs/guides/call-your-http-service.md` fit each other."""

import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from rota.config.settings import SCHEMA
from rota.infrastructure.executors.http.settings import is_listed

GUIDE = Path(__file__).resolve().parents[3] / "docs" / "guides" / "call-your-http-service.md"


def read_file(name: str) -> Any:
    found = re.search(rf"<!-- file: {re.escape(name)} -->\n```yaml\n(.*?)```", GUIDE.read_text("utf-8"), re.DOTALL)
    assert found is not None, name
    return yaml.safe_load(found[1])


def test_what_the_config_names_is_in_the_settings_and_for_its_host() -> None:
    executor = read_file("refund.yaml")["executor"]
    given = read_file("settings-with-secrets.yaml")["http"]
    host = urlsplit(executor["url"]).hostname or ""
    for key, named in (("secrets", executor["secret"]), ("targets", executor["target"])):
        known = SCHEMA[f"http.{key}"].kind.read(key, given[key])
        assert is_listed(known[named].hosts, host, port=443), f"{key}.{named}"
