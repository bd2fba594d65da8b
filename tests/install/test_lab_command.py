"""`grader lab`: the command line it gives JupyterLab, whose Python the notebooks get, and a real start."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from grader import bootstrap, lab

NOTEBOOK = b'{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}'


@pytest.fixture
def started(tmp_path, monkeypatch):
    """Run the command on a small course, without a real JupyterLab; return its command line, environment, settings."""
    course = tmp_path / "notebooks" / "01 é"
    course.mkdir(parents=True)
    (course / "01 é.ipynb").write_bytes(NOTEBOOK)
    monkeypatch.setattr(lab, "NOTEBOOKS", tmp_path / "notebooks")
    monkeypatch.setattr(lab, "ROOT", tmp_path)
    asked = []
    monkeypatch.setattr(bootstrap, "ensure", lambda extras: asked.append(extras) or sys.executable)

    def start(*argv):
        seen = {"extras": asked}

        def attached(command, cwd=None, env=None):
            overrides = Path(
                env["JUPYTER_CONFIG_PATH"].split(os.pathsep)[0], "labconfig/default_setting_overrides.json"
            )
            seen.update(command=command, env=env, settings=json.loads(overrides.read_text()))
            return 3

        monkeypatch.setattr(bootstrap, "attached", attached)
        assert lab.main(list(argv)) == 3
        return seen

    return start


def test_the_command_line(started, tmp_path, capsys):
    seen = started("--no-browser", "--port", "9001", "--extras", "qwen3", "--ServerApp.ip=0.0.0.0")
    command = seen["command"]
    assert command[:3] == [sys.executable, "-m", "jupyterlab"]
    assert f"--ServerApp.root_dir={tmp_path / 'my_course'}" in command
    assert {"--no-browser", "--ServerApp.port=9001", "--ServerApp.ip=0.0.0.0"} <= set(command)
    assert seen["extras"] == [["qwen3"]]
    assert (tmp_path / "my_course" / "01 é" / "01 é.ipynb").read_bytes() == NOTEBOOK
    out = capsys.readouterr().out
    assert f"Your copies of the chapters are in {tmp_path / 'my_course'}" in out and "make lab" in out


def test_only_the_first_start_opens_the_first_chapter(started):
    assert "--LabApp.default_url=/lab/tree/01%20%C3%A9/01%20%C3%A9.ipynb" in started()["command"]
    second = started()["command"]
    assert not [arg for arg in second if "default_url" in arg] and "--no-browser" not in second


def test_another_folder(started, tmp_path):
    started("--course-dir", str(tmp_path / "elsewhere"))
    assert (tmp_path / "elsewhere" / "01 é" / "01 é.ipynb").exists() and not (tmp_path / "my_course").exists()


def test_no_news_and_no_packages_of_others(started, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "/somewhere")
    monkeypatch.setenv("JUPYTER_CONFIG_PATH", "/theirs")
    seen = started()
    assert seen["settings"]["@jupyterlab/apputils-extension:notification"]["fetchNews"] == "false"
    assert "PYTHONPATH" not in seen["env"]
    assert seen["env"]["JUPYTER_CONFIG_PATH"].endswith(os.pathsep + "/theirs")
    assert seen["env"]["PATH"].split(os.pathsep)[0] == str(Path(sys.executable).parent)


def test_trouble_with_the_students_folder_is_one_clear_message(started, tmp_path, capsys):
    (tmp_path / "my_course").write_text("a file")
    assert bootstrap.main(["--in-venv", "lab"]) == 1
    err = capsys.readouterr().err
    assert "not a folder" in err and "Next: " in err and "Traceback" not in err


def test_no_kernel_of_the_user_can_take_the_place_of_ours(tmp_path, monkeypatch):
    for place in ("data", "path"):
        spec = tmp_path / place / "kernels" / "python3" / "kernel.json"
        spec.parent.mkdir(parents=True)
        spec.write_text('{"argv": ["/bin/false"], "display_name": "theirs", "language": "python"}')
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "path"))
    monkeypatch.setenv("JUPYTER_PREFER_ENV_PATH", "0")
    code = "from jupyter_client.kernelspec import get_kernel_spec as g; print(g('python3').display_name)"

    def kernel(env):
        done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    assert kernel(dict(os.environ)) == "theirs"
    assert kernel(lab._environment(sys.executable, str(tmp_path))) == "Python 3 (ipykernel)"


@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
def test_jupyterlab_starts_and_ends(tmp_path):
    (tmp_path / "notebooks" / "01_a").mkdir(parents=True)
    (tmp_path / "notebooks" / "01_a" / "01_a.ipynb").write_bytes(NOTEBOOK)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    code = (
        "import sys; from pathlib import Path; from grader import bootstrap, lab\n"
        "bootstrap.ensure = lambda extras: sys.executable\n"
        f"lab.NOTEBOOKS = Path({str(tmp_path / 'notebooks')!r})\n"
        "sys.exit(lab.main(sys.argv[1:]))\n"
    )
    arguments = ["--course-dir", str(tmp_path / "mine"), "--no-browser", f"--port={port}", "--IdentityProvider.token=t"]
    home = tmp_path / "home"
    env = {k: v for k, v in os.environ.items() if not k.startswith("JUPYTER")} | {"HOME": str(home)}
    server = subprocess.Popen(
        [sys.executable, "-c", code, *arguments], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )

    def get(path):
        url = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers={"Authorization": "token t"})
        return json.load(urllib.request.urlopen(url, timeout=10))

    try:
        limit = time.monotonic() + 60
        while time.monotonic() < limit and server.poll() is None:
            try:
                get("/api")
                break
            except (OSError, urllib.error.URLError):
                time.sleep(0.1)
        news = get("/lab/api/settings/@jupyterlab/apputils-extension:notification")
        assert news["schema"]["properties"]["fetchNews"]["default"] == "false"
        assert [one["name"] for one in get("/api/contents")["content"]] == ["01_a"]
        server.send_signal(signal.SIGTERM)
        out = server.communicate(timeout=30)[0]
    finally:
        server.kill()
        server.wait()
    assert server.returncode == 0 and "brings you back" in out and "Traceback" not in out
