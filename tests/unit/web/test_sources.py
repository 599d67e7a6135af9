"""The source of the console: both languages say everything, and what it expects is what the API answers."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from rota.config.settings import SCHEMA
from rota.domain.past_reign import LOST, RESIGNED, WON
from rota.domain.timetable import SkipReason
from rota.domain.waiting import Reason
from rota.interfaces.http.openapi import build_document
from rota.interfaces.operations.catalogue import OPERATIONS

WEB = Path(__file__).resolve().parents[3] / "web"
LOCALES = WEB / "src" / "locales"
SOURCES = WEB.parent / "src" / "rota"
NOTING = ("application", "config")  # who writes into the audit log
INTERFACE = re.compile(r"export interface (\w+)(?:<\w+>)? \{(.*?)\n\}", re.DOTALL)
OWN = {"Page", "Session"}  # made of others, or no operation of the API
BLANK = re.compile(r"\{\{(\w+)\}\}")
FOREIGN_WORDS = re.compile(r"[A-Za-z0-9 .,:/…()%{}“”=*-]*")


def flatten(catalog: object, place: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(catalog, dict):
        for key, value in catalog.items():
            yield from flatten(value, f"{place}.{key}" if place else key)
    else:
        yield place, str(catalog)


def read(language: str) -> dict[str, str]:
    return dict(flatten(json.loads((LOCALES / f"{language}.json").read_text("utf-8"))))


def test_both_languages_have_the_same_keys_and_blanks() -> None:
    english, chinese = read("en"), read("zh-CN")
    assert english.keys() == chinese.keys()
    for key, text in english.items():
        assert sorted(BLANK.findall(text)) == sorted(BLANK.findall(chinese[key])), key
        assert text.strip(), key
        assert chinese[key].strip(), key


def test_chinese_is_chinese() -> None:
    same = {key for key, text in read("zh-CN").items() if FOREIGN_WORDS.fullmatch(text)}
    assert same == {"preferences.utc", "configs.mode_cron"}


def test_every_setting_is_explained_in_chinese() -> None:
    words = json.loads((LOCALES / "settings.zh-CN.json").read_text("utf-8"))
    assert words.keys() == SCHEMA.keys(), "web/src/locales/settings.zh-CN.json says what each setting is for"
    for key, text in words.items():
        assert set(re.findall("`([^`]*)`", text)) == set(re.findall("`([^`]*)`", SCHEMA[key].text)), key


def test_all_chinese_texts_have_one_word_for_a_thing() -> None:
    readme = (WEB.parent / "README.zh-CN.md").read_text("utf-8")
    said = re.sub(r"`[^`\n]*`|\uff08(worker|leader)\uff09", "", readme)  # what is typed, and what a word is in English
    assert not re.findall(".*(?<![A-Za-z])(?:worker|leader).*", said)
    told = [*LOCALES.glob("*.zh-CN.json"), LOCALES / "zh-CN.json"]
    texts = "\n".join([readme, *(path.read_text("utf-8") for path in told)])
    assert not re.findall(".*(?:领导者|派发).*", texts), "主节点, 分派"


def test_every_reason_to_wait_is_told_in_chinese() -> None:
    words = json.loads((LOCALES / "why.zh-CN.json").read_text("utf-8"))
    lacks = {f"no_worker_{where}{what}" for where in ("for_type", "alone") for what in ("", "_module", "_executor")}
    busy = {"workers_busy_draining", "workers_draining"}
    meanwhile = {"skips_skip", "skips_queue_one", "keeps_firing"}
    assert words.keys() == {*Reason, "not_due_retrying", "not_due_returned", "ended_error"} | lacks | busy | meanwhile
    told = build_document(OPERATIONS)["components"]["schemas"]["Explanation"]["properties"]
    blanks = {blank for text in words.values() for blank in BLANK.findall(text)}
    assert blanks <= {*told, "at", "error", "type", "outcome"}


def test_every_reason_to_skip_a_fire_has_words() -> None:
    words = {key.removeprefix("configs.reasons.") for key in read("en") if key.startswith("configs.reasons.")}
    assert words == set(SkipReason)


def test_every_reason_that_sends_an_attempt_back_has_words() -> None:
    words = {key.removeprefix("task.sent_back.") for key in read("en") if key.startswith("task.sent_back.")}
    code = "\n".join(
        path.read_text("utf-8") for name in ("domain", "application") for path in (SOURCES / name).rglob("*.py")
    )
    assert words == set(re.findall(r"(?:HandedBack|\.released)\(\"(\w+)\"", code))


def test_everything_that_the_audit_log_notes_has_words() -> None:
    words = {key.removeprefix("audit.actions.") for key in read("en") if key.startswith("audit.actions.")}
    code = "\n".join(path.read_text("utf-8") for name in NOTING for path in (SOURCES / name).rglob("*.py"))
    noted = set(re.findall(r"action=\"([a-z_]+\.[a-z_]+)\"", code)) | {"task.complete", "task.fail"}  # by callback
    assert words == noted | {WON, RESIGNED, LOST}


def test_the_details_of_the_audit_log_that_have_words_are_those_that_are_written() -> None:
    words = json.loads((LOCALES / "audit.zh-CN.json").read_text("utf-8"))
    code = "\n".join(path.read_text("utf-8") for name in NOTING for path in (SOURCES / name).rglob("*.py"))
    for form, text in words.items():
        written = r"\{[^{}]+\}".join(map(re.escape, BLANK.split(form)[::2]))
        assert re.search(f'"{written}"', code), form
        assert set(BLANK.findall(text)) <= set(BLANK.findall(form)), form


def test_no_key_is_left_that_nobody_says() -> None:
    code = "\n".join(path.read_text("utf-8") for path in (WEB / "src").rglob("*.ts*"))
    spelt = set(re.findall(r"[\"`]([a-z_]+(?:\.[A-Za-z0-9_]+)+)[\"`]", code))
    begun = tuple(set(re.findall(r"`([a-z_]+\.(?:[A-Za-z0-9_.]*))\$\{", code)))
    unused = {key for key in read("en") if key not in spelt and not key.startswith(begun)}
    assert unused == set()


def fields(body: str) -> set[str]:
    return set(re.findall(r"^  (\w+)\??:", body, re.MULTILINE))


@pytest.mark.parametrize(
    ("name", "body"), INTERFACE.findall((WEB / "src" / "types.ts").read_text("utf-8")), ids=lambda text: text[:12]
)
def test_what_the_console_reads_is_what_the_api_answers(name: str, body: str) -> None:
    schemas = build_document(OPERATIONS)["components"]["schemas"]
    if name in OWN:
        return
    assert fields(body) == set(schemas[name]["properties"])


def test_the_lock_file_names_no_registry_and_has_the_bundler_of_every_platform() -> None:
    lock = json.loads((WEB / "package-lock.json").read_text("utf-8"))
    packages = {place: entry for place, entry in lock["packages"].items() if place}
    assert not [place for place, entry in packages.items() if "resolved" in entry]
    assert not [place for place, entry in packages.items() if "integrity" not in entry]
    assert sum("@rolldown/binding-" in place for place in packages) >= 10


def test_versions_are_exact() -> None:
    package = json.loads((WEB / "package.json").read_text("utf-8"))
    wanted = package["dependencies"] | package["devDependencies"] | package["overrides"]
    assert not {name: version for name, version in wanted.items() if not re.fullmatch(r"\d+\.\d+\.\d+", version)}


MADE_OF_OTHERS = {
    "Box",
    "CopyButton",
    "MultiSelect",
    "NativeSelect",
    "TableScrollContainer",
    "TextInput",
    "Textarea",
}  # or bare


def test_every_component_has_its_styles() -> None:
    code = "\n".join(path.read_text("utf-8") for path in (WEB / "src").rglob("*.tsx"))
    names = re.findall(r"[A-Za-z]+", " ".join(re.findall(r'import \{([^}]*)\} from "@mantine/core"', code)))
    used = {name for name in names if name[0].isupper()} - {"Bar", "MantineProvider"} - MADE_OF_OTHERS
    listed = set(re.findall(r"styles/(\w+)\.css", (WEB / "src" / "mantine.css").read_text("utf-8")))
    assert used <= listed, "web/src/mantine.css names the styles of each component that is used"


def test_nothing_is_written_into_the_page_as_markup() -> None:
    code = "\n".join(path.read_text("utf-8") for path in (WEB / "src").rglob("*.ts*"))
    assert not re.findall(
        r"dangerouslySetInnerHTML|innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", code
    )
    assert "<script>" not in (WEB / "index.html").read_text("utf-8")
