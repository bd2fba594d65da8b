"""Which Python a command gets, when pip runs, when .venv is made anew, and what a person reads when something fails."""

import ast
import contextlib
import errno
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from grader import bootstrap
from grader.bootstrap import Stop

posix = pytest.mark.skipif(os.name == "nt", reason="POSIX only")

PYPROJECT = """
[project]
name = "grpo-from-scratch"
version = "1"
requires-python = ">=3.11"
dependencies = ["numpy>=2", "rich>=13"]
[project.optional-dependencies]
qwen3 = ["torch>=2"]
instructor = ["nbgrader"]
test = ["grpo-from-scratch[instructor, qwen3]", "pytest"]
"""
GOOD = {"version": list(sys.version_info[:2]), "pip": True, "missing": []}
NOTHING = {"version": [], "pip": False, "missing": None}


@pytest.fixture
def root(tmp_path, monkeypatch):
    """An empty checkout, in place of the real one; nothing in it runs pip or makes a .venv unless a test says so."""
    root = tmp_path / "course"
    root.mkdir()
    (root / "pyproject.toml").write_text(PYPROJECT)
    monkeypatch.setattr(bootstrap, "ROOT", root)
    monkeypatch.setattr(bootstrap, "step", lambda *a, **k: pytest.fail("nothing was to be installed"))
    return root


@pytest.fixture
def steps(root, monkeypatch):
    """The commands of the installation, recorded instead of run; what the Python of .venv says about itself."""
    commands = []

    def step(command, title, lock=None, env=None):
        commands.append(command)
        if "venv" in command:
            (root / ".venv" / "pyvenv.cfg").write_text("")

    monkeypatch.setattr(bootstrap, "step", step)
    monkeypatch.setattr(bootstrap, "look_into", lambda venv, extras=None: GOOD)
    return commands


def venv(root, /, extras=(), **changes):
    """A .venv as a finished installation leaves it."""
    (root / ".venv").mkdir(exist_ok=True)
    (root / ".venv" / "pyvenv.cfg").write_text("")
    stamp = {"digest": bootstrap.digest(), "extras": list(extras), "root": str(root), **changes}
    (root / ".venv" / bootstrap.STAMP).write_text(json.dumps(stamp))
    return root / ".venv"


def short(command):
    return " ".join(command[1:4]) if "venv" in command else " ".join(command[2:5] + command[8:])


# ---- old Pythons ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["__init__.py", "__main__.py", "bootstrap.py"])
def test_what_runs_first_can_be_read_by_an_old_python(name):
    tree = ast.parse((Path(bootstrap.__file__).parent / name).read_text(encoding="utf-8"), feature_version=(3, 8))
    top = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    modules = {alias.name for node in top if isinstance(node, ast.Import) for alias in node.names}
    modules |= {node.module for node in top if isinstance(node, ast.ImportFrom)}
    assert {module.split(".")[0] for module in modules} <= set(sys.stdlib_module_names) - {"tomllib"}


@pytest.mark.parametrize("version", [(3, 8, 18), (3, 10, 1), (3, 14, 0)])
@pytest.mark.parametrize("newer", [False, True])
def test_an_unsuitable_python_is_told_in_one_sentence(root, monkeypatch, capsys, version, newer):
    monkeypatch.setattr(bootstrap.sys, "version_info", (*version, "final", 0))
    monkeypatch.setattr(bootstrap, "runs", lambda name: newer and name == "python3.12")
    assert bootstrap.main(["lab"]) == 1
    text = capsys.readouterr().err.strip()
    assert len(text.splitlines()) == 1
    assert "Python 3.11 to 3.13" in text and ".".join(map(str, version)) in text
    assert ("make lab PYTHON=python3.12" if newer else "install Python 3.12") in text
    assert not (root / ".venv").exists()


def test_an_unsuitable_python_hands_over_to_a_venv_that_is_fine(root, monkeypatch):
    monkeypatch.setattr(bootstrap.sys, "version_info", (3, 9, 6, "final", 0))
    monkeypatch.setattr(bootstrap, "look_into", lambda venv, extras=None: GOOD)
    monkeypatch.setattr(bootstrap, "hand_over", lambda python, argv: (python, argv))
    assert bootstrap.main(["lab", "--no-browser"]) == (str(bootstrap.venv_python()), ["lab", "--no-browser"])


# ---- what a command needs ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "argv, extras",
    [
        (["lab"], []),
        (["lab", "--extras", "qwen3"], ["qwen3"]),
        (["lab", "--extras=qwen3,instructor"], ["instructor", "qwen3"]),
        (["lab", "--port", "1", "--extras", "instructor qwen3"], ["instructor", "qwen3"]),
        (["lab", "--", "--extras", "nonsense"], []),
        (["mistakes"], []),
        (["bench"], []),
        (["grade", "a", "--out", "b"], ["instructor"]),
        (["release"], ["instructor"]),
        (["something later"], ["instructor"]),
        (["test", "-k", "--extras"], ["instructor", "qwen3", "test"]),
    ],
)
def test_what_each_command_needs(root, argv, extras):
    assert bootstrap.wanted_extras(argv) == extras


def test_an_unknown_extra_is_named(root, capsys):
    assert bootstrap.main(["lab", "--extras", "torch"]) == 1
    assert "'torch'" in capsys.readouterr().err and not (root / ".venv").exists()


def test_help_installs_nothing(root, capsys):
    for argv in ([], ["help"], ["--help"]):
        assert bootstrap.main(argv) == 0
    assert "make lab" in capsys.readouterr().out


def test_a_damaged_pyproject_is_explained(root, capsys):
    (root / "pyproject.toml").write_text("[project")
    assert bootstrap.main(["lab"]) == 1
    assert "git checkout pyproject.toml" in capsys.readouterr().err


def test_packages_missing_from_this_python(root, monkeypatch):
    there = {"numpy", "rich", "pytest", "torch"}
    monkeypatch.setattr(bootstrap, "has", there.__contains__)
    monkeypatch.setattr(bootstrap, "installed_from", lambda: root)
    assert bootstrap.missing([]) == []
    assert bootstrap.missing(["test"]) == ["nbgrader"]
    monkeypatch.setattr(bootstrap, "installed_from", lambda: None)
    assert bootstrap.missing([]) == ["grpo-from-scratch"]


@pytest.mark.parametrize(
    "record, found",
    [
        ('{"url": "file:///some/where", "dir_info": {"editable": true}}', "/some/where"),
        ('{"url": "file:///a%20b", "dir_info": {"editable": true}}', "/a b"),
        ('{"url": "file:///some/where", "dir_info": {}}', None),
        ('{"url": "https://example.org/x.whl", "archive_info": {}}', None),
        ("{", None),
        (None, None),
    ],
)
@posix
def test_only_an_editable_installation_counts(monkeypatch, record, found):
    class Distribution:
        def read_text(self, name):
            return record

    monkeypatch.setattr(bootstrap.importlib.metadata, "distribution", lambda name: Distribution())
    assert bootstrap.installed_from() == (Path(found) if found else None)


def test_this_python_is_used_if_it_has_everything(root, monkeypatch):
    monkeypatch.setattr(bootstrap, "missing", lambda extras: [])
    assert bootstrap.ensure(["test"]) == sys.executable


def test_a_venv_made_by_hand_is_used_as_it_is(root, monkeypatch):
    (root / ".venv").mkdir()
    monkeypatch.setattr(bootstrap.sys, "prefix", str(root / ".venv"))
    monkeypatch.setattr(bootstrap, "missing", lambda extras: [])
    assert bootstrap.ensure([]) == sys.executable


# ---- .venv ---------------------------------------------------------------------------------------------------------


def test_the_first_start_makes_the_venv_and_the_second_does_nothing(root, steps, capsys):
    (root / "constraints.txt").write_text("numpy==2\n")
    assert bootstrap.ensure([]) == str(bootstrap.venv_python())
    assert [short(command) for command in steps] == ["-I -m venv", "-m pip install off -e . -c constraints.txt"]
    assert bootstrap.read_stamp()["digest"] == bootstrap.digest()
    assert not (root / ".venv" / bootstrap.UNFINISHED).exists()
    assert "once" in capsys.readouterr().out
    steps.clear()
    assert bootstrap.ensure([]) == str(bootstrap.venv_python())
    assert steps == [] and capsys.readouterr().out == ""


def test_more_extras_are_added_and_none_is_forgotten(root, steps):
    venv(root, ["qwen3"])
    bootstrap.ensure(["instructor"])
    assert [short(command) for command in steps] == ["-m pip install off -e .[instructor,qwen3]"]
    steps.clear()
    bootstrap.ensure(["qwen3"])
    bootstrap.ensure([])
    assert steps == []
    bootstrap.ensure(["test"])
    assert short(steps[0]).endswith("-e .[instructor,qwen3,test]")


@pytest.mark.parametrize("name", ["pyproject.toml", "constraints.txt"])
def test_changed_requirements_are_installed(root, steps, name):
    venv(root, ["qwen3"])
    with open(root / name, "a") as file:
        file.write("# changed\n")
    bootstrap.ensure([])
    assert [short(command)[:28] for command in steps] == ["-m pip install off -e .[qwen"]
    assert bootstrap.is_current(bootstrap.read_stamp(), ["qwen3"])


def test_an_extra_that_no_longer_exists_is_dropped(root, steps):
    venv(root, ["gone"], digest="old")
    bootstrap.ensure([])
    assert short(steps[0]).endswith("-e .") and bootstrap.read_stamp()["extras"] == []


def test_changed_requirements_are_noticed_from_inside_the_venv_too(root, steps, monkeypatch):
    venv(root, digest="old")
    monkeypatch.setattr(bootstrap.sys, "prefix", str(root / ".venv"))
    monkeypatch.setattr(bootstrap, "missing", lambda extras: [])
    bootstrap.ensure([])
    assert len(steps) == 1


@pytest.mark.parametrize("lack", [{"missing": ["rich"]}, {"missing": None}, {"pip": False}, NOTHING])
def test_a_stamp_is_not_believed_when_the_venv_says_otherwise(root, steps, monkeypatch, lack):
    venv(root)
    monkeypatch.setattr(bootstrap, "look_into", lambda venv, extras=None: {**GOOD, **lack})
    bootstrap.ensure([])
    assert len(steps) == (1 if "pip" not in lack else 2)


@pytest.mark.parametrize(
    "damage, reason",
    [
        ({"pip": False}, "no pip"),
        (NOTHING, "does not start"),
        ({"version": [3, 9]}, "Python 3.9"),
        ({"version": [3, 14]}, "Python 3.14"),
    ],
)
def test_a_venv_that_cannot_be_trusted_is_made_anew(root, steps, monkeypatch, capsys, damage, reason):
    venv(root, ["qwen3"], digest="old")
    (root / ".venv" / "lib").mkdir()
    monkeypatch.setattr(bootstrap, "look_into", lambda venv, extras=None: {**GOOD, **damage})
    bootstrap.ensure([])
    assert [short(command)[:28] for command in steps] == ["-I -m venv", "-m pip install off -e .[qwen"]
    assert reason in capsys.readouterr().out and not (root / ".venv" / "lib").exists()


def test_an_interrupted_installation_is_made_anew(root, steps, monkeypatch, capsys):
    real = bootstrap.step

    def interrupted(command, *rest, **named):
        real(command, *rest, **named)
        if "pip" in command:
            raise KeyboardInterrupt

    monkeypatch.setattr(bootstrap, "step", interrupted)
    assert bootstrap.main(["lab", "--extras", "qwen3"]) == 130
    assert not bootstrap.is_current(bootstrap.read_stamp(), [])
    monkeypatch.setattr(bootstrap, "step", real)
    steps.clear()
    bootstrap.ensure([])
    assert [short(command)[:28] for command in steps] == ["-I -m venv", "-m pip install off -e .[qwen"]
    assert "interrupted" in capsys.readouterr().out


def test_a_marker_of_an_interrupted_installation_outweighs_the_stamp(root, steps):
    (venv(root) / bootstrap.UNFINISHED).touch()
    bootstrap.ensure([])
    assert len(steps) == 2 and not (root / ".venv" / bootstrap.UNFINISHED).exists()


def test_a_failed_pip_runs_again_and_the_extras_are_remembered(root, steps, monkeypatch):
    venv(root, ["qwen3"], digest="old")
    real = bootstrap.step

    def failing(command, *rest, **named):
        (root / ".venv" / bootstrap.UNFINISHED).unlink()  # as step does when pip has changed nothing
        raise Stop("no network")

    monkeypatch.setattr(bootstrap, "step", failing)
    assert bootstrap.main(["lab"]) == 1
    monkeypatch.setattr(bootstrap, "step", real)
    bootstrap.ensure([])
    assert [short(command) for command in steps] == ["-m pip install off -e .[qwen3]"]


def test_making_it_anew_keeps_the_lock_file_and_uses_the_python_below(root, steps, monkeypatch):
    (venv(root) / bootstrap.UNFINISHED).touch()
    lock = root / ".venv" / bootstrap.LOCK
    lock.touch()
    inode = lock.stat().st_ino
    monkeypatch.setattr(bootstrap.sys, "prefix", str(root / ".venv"))
    monkeypatch.setattr(bootstrap.sys, "_base_executable", "/base/python3")
    bootstrap.ensure([])
    assert steps[0][0] == "/base/python3" and lock.stat().st_ino == inode


@pytest.mark.parametrize("moved", [True, False])
def test_a_moved_or_copied_folder_is_made_anew(root, steps, capsys, moved, tmp_path):
    other = tmp_path / "before"
    if not moved:
        other.mkdir()
    venv(root, root=str(other))
    bootstrap.ensure([])
    assert [short(command)[:10] for command in steps] == ["-I -m venv", "-m pip ins"]
    assert "moved or copied" in capsys.readouterr().out
    assert bootstrap.read_stamp()["root"] == str(root)


@pytest.mark.parametrize(
    "stamp",
    ["", "[]", "3", "{}", '{"digest": 1, "extras": [], "root": ""}', '{"digest": "", "extras": [1], "root": ""}'],
)
def test_a_stamp_that_cannot_be_read_is_no_stamp(root, steps, stamp):
    (venv(root) / bootstrap.STAMP).write_text(stamp)
    assert bootstrap.read_stamp() is None
    bootstrap.ensure([])
    assert [short(command) for command in steps] == ["-m pip install off -e ."]


def test_somebodys_folder_is_not_emptied(root, steps, capsys):
    (root / ".venv").mkdir()
    (root / ".venv" / "thesis.tex").write_text("work")
    assert bootstrap.main(["lab"]) == 1
    assert "thesis.tex" in capsys.readouterr().err and (root / ".venv" / "thesis.tex").exists() and steps == []
    (root / ".venv" / "thesis.tex").unlink()
    bootstrap.ensure([])  # the attempt before has left nothing that is in the way
    assert len(steps) == 2


def test_a_file_in_the_way_is_explained(root, capsys):
    (root / ".venv").write_text("")
    assert bootstrap.main(["lab"]) == 1
    assert "in the way" in capsys.readouterr().err


def test_another_process_that_was_faster_is_enough(root, steps, monkeypatch):
    @contextlib.contextmanager
    def locked(folder):
        folder.mkdir()
        venv(root)  # what the other one did while we waited
        yield None

    monkeypatch.setattr(bootstrap, "locked", locked)
    bootstrap.ensure([])
    assert steps == []


HOLD = """
import sys, time
from pathlib import Path
from grader import bootstrap
with bootstrap.locked(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_the_lock_waits_for_its_holder_and_outlives_no_process(tmp_path, capsys):
    folder = tmp_path / ".venv"
    command = [sys.executable, "-c", HOLD, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "held\n"
        start = time.monotonic()
        killer = subprocess.Popen(
            [sys.executable, "-c", f"import os, time; time.sleep(.5); os.kill({holder.pid}, {int(signal.SIGTERM)})"]
        )
        with bootstrap.locked(folder):
            assert time.monotonic() - start > 0.3
        killer.wait()
    assert "waiting" in capsys.readouterr().out


@posix
def test_the_python_of_a_venv_is_asked_not_assumed(tmp_path):
    folder = tmp_path / "venv"
    assert bootstrap.look_into(folder) == NOTHING
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    assert bootstrap.look_into(folder, []) == {**GOOD, "pip": False, "missing": None}
    (folder / "bin" / "python").unlink()
    (folder / "bin" / "python").symlink_to("/nonexistent/python3")
    assert bootstrap.look_into(folder) == NOTHING


# ---- failures ------------------------------------------------------------------------------------------------------


@pytest.fixture
def failing(root, monkeypatch):
    """Run one step that prints a text and fails; return the message that a person gets."""
    monkeypatch.undo()
    monkeypatch.setattr(bootstrap, "ROOT", root)
    (root / ".venv").mkdir()

    def fail(text):
        (root / ".venv" / bootstrap.UNFINISHED).touch()
        with pytest.raises(Stop) as stop:
            bootstrap.step([sys.executable, "-c", f"print({text!r}); raise SystemExit(3)", "pip"], "Installing")
        return str(stop.value)

    return fail


@pytest.mark.parametrize(
    "output, next_step",
    [
        ("WARNING: Retrying after NewConnectionError(...)\nERROR: No matching distribution found for x", "HTTPS_PROXY"),
        ("ReadTimeoutError: Read timed out.", "internet connection"),
        ("[Errno -3] Temporary failure in name resolution: Name or service not known", "internet connection"),
        ("SSLError(SSLCertVerificationError(1, '[SSL: CERTIFICATE_VERIFY_FAILED]", "PIP_CERT"),
        ("ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device", "disk space"),
        ("ERROR: Could not install packages due to an OSError: [WinError 5] Access is denied", "close programs"),
        ("ERROR: [Errno 13] Permission denied: '/x'", "may write to"),
        ("ERROR: No matching distribution found for torch==2.13.0", "PYTHON=python3.12"),
        ("ERROR: Failed building wheel for pyzmq", "PYTHON=python3.12"),
        ("something nobody has seen", "delete the folder"),
    ],
)
def test_a_failed_step_says_why_where_and_what_next(failing, root, output, next_step):
    text = failing("\n".join(f"line {i}" for i in range(40)) + "\n" + output)
    assert text.startswith("Installing failed (exit status 3)")
    assert output.splitlines()[0] in text and "line 3\n" not in text
    if output.startswith("WARNING"):
        assert "No matching" not in text  # what pip concludes without a network misleads
    assert text.splitlines()[-1].startswith("Next: ") and next_step in text.splitlines()[-1]
    log = root / ".venv" / bootstrap.LOG
    assert f"All of it: {log}" in text and "line 3\n" in log.read_text()


def test_only_a_pip_that_began_to_write_makes_the_venv_doubtful(failing, root):
    failing("Collecting numpy\nERROR: no network")
    assert not (root / ".venv" / bootstrap.UNFINISHED).exists()
    failing("Collecting numpy\nInstalling collected packages: numpy\nERROR")
    assert (root / ".venv" / bootstrap.UNFINISHED).exists()


@pytest.mark.parametrize(
    "there, apt, says", [(False, True, "apt-get install python3."), (False, False, "-venv"), (True, True, "space")]
)
def test_a_python_without_venv(monkeypatch, there, apt, says):
    spec = type("Spec", (), {"origin": "x"}) if there else None
    monkeypatch.setattr(bootstrap.importlib.util, "find_spec", lambda name: spec)
    monkeypatch.setattr(bootstrap.shutil, "which", lambda name: "/usr/bin/apt-get" if apt else None)
    line, next_step = bootstrap.advice("The virtual environment was not created: ensurepip is not available.")
    assert "ensurepip" in line and says in next_step


def test_a_program_that_does_not_start(root, monkeypatch):
    monkeypatch.undo()
    with pytest.raises(Stop, match="check that this starts"):
        bootstrap.step(["/nonexistent/python", "-m", "venv"], "Making .venv")
    with pytest.raises(Stop, match="/nonexistent/python"):
        bootstrap.hand_over("/nonexistent/python", ["lab"])


@pytest.mark.parametrize(
    "number, says",
    [
        (errno.ENOSPC, "disk is full"),
        (errno.EROFS, "folder of your own"),
        (errno.EACCES, "folder of your own"),
        (errno.EIO, "check that path"),
    ],
)
def test_a_folder_that_cannot_be_written(root, monkeypatch, capsys, number, says):
    def mkdir(self, **kwargs):
        raise OSError(number, os.strerror(number), str(self))

    monkeypatch.setattr(Path, "mkdir", mkdir)
    assert bootstrap.main(["lab"]) == 1
    text = capsys.readouterr().err
    assert str(root / ".venv") in text and says in text and "Traceback" not in text


def test_a_log_that_cannot_be_written_goes_to_the_temporary_folder(root):
    log, name = bootstrap.open_log()  # there is no .venv
    log.close()
    assert Path(name).exists() and not name.startswith(str(root))
    os.unlink(name)


# ---- running -------------------------------------------------------------------------------------------------------


@posix
def test_the_second_process_gets_no_packages_of_others(root, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "/somewhere")
    monkeypatch.setenv("PYTHONHOME", "/somewhere")
    called = []
    monkeypatch.setattr(bootstrap.os, "execve", lambda *args: called.append(args))
    venv(root)
    monkeypatch.setattr(bootstrap, "look_into", lambda venv, extras=None: GOOD)
    bootstrap.main(["lab", "--port", "9"])
    ((program, command, env),) = called
    python = str(bootstrap.venv_python())
    assert program == python and command == [python, "-m", "grader", "--in-venv", "lab", "--port", "9"]
    assert not {"PYTHONPATH", "PYTHONHOME"} & set(env) and env["PATH"] == os.environ["PATH"]


def test_pip_installs_into_the_venv_whatever_the_user_has_set(monkeypatch):
    monkeypatch.setenv("PIP_TARGET", "/somewhere")
    monkeypatch.setenv("PIP_USER", "1")
    monkeypatch.setenv("PIP_INDEX_URL", "https://mirror.example")
    env = bootstrap.pip_environment()
    assert "PIP_TARGET" not in env and env["PIP_USER"] == "0" and env["PIP_INDEX_URL"] == "https://mirror.example"


def test_what_runs_inside(monkeypatch):
    ran = []
    monkeypatch.setattr(bootstrap, "attached", lambda command, cwd=None, env=None: ran.append((command, cwd, env)) or 5)
    monkeypatch.setenv("OMP_NUM_THREADS", "8")
    assert bootstrap.main(["--in-venv", "bench", "--json", "x"]) == 5
    assert ran[0][0] == [sys.executable, "-m", "grpo.cli", "bench", "--json", "x"]
    assert bootstrap.main(["--in-venv", "test", "-k", "loss"]) == 5
    command, cwd, env = ran[1]
    assert command == [sys.executable, "-m", "pytest", "-k", "loss"] and cwd == str(bootstrap.ROOT)
    assert env["OMP_NUM_THREADS"] == "1" and env["MPLBACKEND"] == "agg"
    assert bootstrap.main(["--in-venv", "test"]) == 5
    assert ran[2][0] == [sys.executable, "-m", "pytest", "-n", "auto", "--dist", "loadscope"]


def test_skipped_browser_tests_are_announced(monkeypatch, capsys):
    monkeypatch.setattr(bootstrap, "attached", lambda *args, **named: 0)
    monkeypatch.setattr(bootstrap, "find_chromium", lambda: None)
    bootstrap.run_tests([])
    assert "Chromium was not found" in capsys.readouterr().out
    monkeypatch.setattr(bootstrap, "find_chromium", lambda: "/usr/bin/chromium")
    bootstrap.run_tests([])
    assert "Chromium" not in capsys.readouterr().out


def test_the_exit_status_is_the_programs():
    assert bootstrap.attached([sys.executable, "-c", "raise SystemExit(7)"]) == 7


@posix
def test_ctrl_c_and_a_polite_kill_reach_the_program_which_ends_in_its_own_time(tmp_path):
    child = tmp_path / "child.py"
    child.write_text(
        textwrap.dedent("""
            import signal, sys, time
            def end(number, frame):
                time.sleep(.3)
                print("ended by", number, flush=True)
                sys.exit(4)
            signal.signal(signal.SIGINT, end)
            signal.signal(signal.SIGTERM, end)
            print("ready", flush=True)
            time.sleep(20)
        """)
    )
    code = f"import sys; from grader.bootstrap import attached; sys.exit(attached([sys.executable, {str(child)!r}]))"
    for number, to_group in ((signal.SIGINT, True), (signal.SIGTERM, False)):
        parent = subprocess.Popen(
            [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        assert parent.stdout.readline() == "ready\n"
        (os.killpg if to_group else os.kill)(parent.pid, number)  # the terminal sends Ctrl-C to the whole group
        assert parent.communicate(timeout=20)[0] == f"ended by {int(number)}\n"
        assert parent.returncode == 4


# ---- all of it, for real -------------------------------------------------------------------------------------------

BACKEND = """
import base64, hashlib, os, zipfile

def build_editable(folder, config_settings=None, metadata_directory=None):
    name = "grpo_from_scratch-1-py3-none-any.whl"
    info = "grpo_from_scratch-1.dist-info"
    files = {
        "course.pth": os.getcwd(),
        info + "/METADATA": "Metadata-Version: 2.1\\nName: grpo-from-scratch\\nVersion: 1\\n",
        info + "/WHEEL": "Wheel-Version: 1.0\\nGenerator: test\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n",
    }
    files[info + "/RECORD"] = "".join(f"{path},,\\n" for path in files) + info + "/RECORD,,\\n"
    with zipfile.ZipFile(os.path.join(folder, name), "w") as wheel:
        for path, text in files.items():
            wheel.writestr(path, text)
    return name
"""


@posix
def test_from_nothing_to_a_running_command_without_a_network(tmp_path):
    """A course without dependencies, built by a backend that lies in its own folder: pip needs no network for it."""
    root = tmp_path / "the course"
    (root / "grader").mkdir(parents=True)
    for name in ("__init__.py", "__main__.py", "bootstrap.py"):
        (root / "grader" / name).write_text((Path(bootstrap.__file__).parent / name).read_text())
    (root / "grader" / "cli.py").write_text("def main():\n    import sys\n    print('ran', sys.prefix, sys.argv[1:])\n")
    (root / "backend.py").write_text(BACKEND)
    build = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    (root / "pyproject.toml").write_text(
        build + '[project]\nname = "grpo-from-scratch"\nversion = "1"\ndependencies = []\n'
        "[project.optional-dependencies]\ninstructor = []\n"
    )

    def start(*argv):
        env = {k: v for k, v in os.environ.items() if not k.startswith(("PIP_", "PYTHON"))}
        env.update(PIP_NO_INDEX="1", PIP_CONFIG_FILE=os.devnull)
        command = [sys.executable, "-m", "grader", *argv]
        done = subprocess.run(command, cwd=root, env=env, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.splitlines()

    says = f"ran {root / '.venv'} ['mistakes', '--quiet']"
    first = start("mistakes", "--quiet")
    assert first[-1] == says and len(first) == 4 and "once" in first[1]
    assert start("mistakes", "--quiet") == [says]
    with open(root / "pyproject.toml", "a") as file:
        file.write("# changed\n")
    again = start("mistakes", "--quiet")
    assert again[-1] == says and "Making" not in "".join(again) and len(again) == 3
