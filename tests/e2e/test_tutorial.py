"""The tutorial and the guides that show commands can be typed as they stand."""

from pathlib import Path

import pytest

from tests.support.servers.process import free_port
from tests.support.typed import ROOT, a_shell, is_said, type_document

TUTORIAL = ROOT / "docs" / "tutorial" / "first-task.md"
FINISH_LATER = ROOT / "docs" / "guides" / "finish-later-by-callback.md"
WEB_GUIDE = ROOT / "docs" / "guides" / "embed-in-a-web-app.md"
HTTP_GUIDE = ROOT / "docs" / "guides" / "call-your-http-service.md"
pytestmark = pytest.mark.timeout(300)


def test_the_tutorial_can_be_typed_as_it_stands(tmp_path: Path) -> None:
    with a_shell(tmp_path, "tasks.py", "spread.py") as shell:
        assert type_document(shell, TUTORIAL.read_text("utf-8")) > 10


def test_the_guide_to_http_services_can_be_typed_as_it_stands(tmp_path: Path) -> None:
    text = HTTP_GUIDE.read_text("utf-8").replace(":9000", f":{(port := free_port())}")
    with a_shell(tmp_path, "http_service/plain_asgi.py") as shell:
        assert type_document(shell, text.replace("--port 9000", f"--port {port}")) > 5


def test_the_guide_to_web_applications_can_be_typed_as_it_stands(tmp_path: Path) -> None:
    text = WEB_GUIDE.read_text("utf-8").replace(":8000", f":{(port := free_port())}")
    with a_shell(tmp_path, "web_app.py") as shell:
        assert type_document(shell, text.replace("--port 8000", f"--port {port}")) >= 3


def test_the_guide_to_finishing_later_can_be_typed_as_it_stands(tmp_path: Path) -> None:
    with a_shell(tmp_path, "finish_later.py") as shell:
        assert type_document(shell, FINISH_LATER.read_text("utf-8")) >= 5


def test_what_is_not_said_is_found_out() -> None:
    assert is_said("a…c\n12345678901234", "x\nabbc\ny\n99999999999999\n")
    assert not is_said("a…c", "abd")
    assert not is_said("one\ntwo", "two\none\n")
