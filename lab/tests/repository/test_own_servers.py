"""The study in docs/own-servers.md runs as it stands there; docs/own-loads.md shows bundled files."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import pytest

from thunderherd.engine import client
from thunderherd.run.own_programs import prepared
from thunderherd.study.loading import load_study
from thunderherd.trial.trial import run_trial

DOCS = Path(__file__).resolve().parents[3] / "docs"
SERVER = f"""#!{sys.executable}
import http.server, sys
if sys.argv[1] == "--version":
    sys.exit(print("1.0"))
class Hello(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "5")
        self.end_headers()
        self.wfile.write(b"hello")
    def log_message(self, *_):
        pass
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[2])), Hello).serve_forever()
"""


def block(kind: str, including: str, page: str = "own-servers.md") -> str:
    text = (DOCS / page).read_text(encoding="utf-8")
    found: list[str] = re.findall(rf"^```{kind}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    return next(each for each in found if including in each)


@pytest.mark.skipif(shutil.which("nginx") is None, reason="needs nginx")
@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
@pytest.mark.usefixtures("use_engine")
def test_the_study_of_the_page_runs(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(block("toml", "[[contenders]]"))
    (tmp_path / "nginx.conf").write_text(block("nginx", "listen"))
    (tmp_path / "server.in").write_text(SERVER)
    (tmp_path / "Makefile").write_text("server: server.in\n\tcp server.in server && chmod +x server\n")
    study = load_study(
        str(tmp_path / "mine.toml"), "quick", ["load.settings.duration=1s"], client.catalogue()
    )
    servers = prepared(study)
    assert servers["mine"]["version"] == "1.0"
    for name in ("mine", "nginx"):
        for _ in range(3):  # On a busy machine the server may be read late.
            trial = run_trial(study, study.contender(name), block=1, position=1, seed=1)
            if trial.valid:
                break
        assert trial.valid, trial.invalid_reasons
        assert (trial.metrics or {})["server_cpu_per_request"]


@pytest.mark.parametrize("path", ["peers/stay.sh", "generators/vegeta.sh"])
def test_the_small_files_of_the_page_are_those_of_bundled_studies(path: str) -> None:
    def code(text: str) -> list[str]:
        return [line for line in text.splitlines() if not line.startswith("#")]

    file = DOCS.parent / "lab/thunderherd/studies" / path
    assert code(block("sh", file.name, "own-loads.md")) == code(file.read_text(encoding="utf-8"))
