"""From a bare Python to a running command: find or make a Python that has the course, then run the command in it.

Standard library only, and written so that a Python as old as 3.8 can still read it and say what is wrong.

The rule of `python -m grader COMMAND`: if the running Python has this checkout installed (editable) with every package
that the command needs, use it. Else use `.venv` beside pyproject.toml, made or completed first where necessary.
`.venv/.grader.json` records what is in there, so that a second start asks pip nothing.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import importlib.metadata
import importlib.util
import json
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from urllib.parse import urlparse
from urllib.request import url2pathname

ROOT = Path(__file__).resolve().parent.parent
PROJECT = "grpo-from-scratch"
OLDEST, NEWEST = (3, 11), (3, 13)  # as requires-python in pyproject.toml; tests hold them together
WINDOWS = os.name == "nt"

INSIDE = "--in-venv"  # first argument of the second process, the one that runs in the prepared Python
STAMP = ".grader.json"
UNFINISHED = ".grader-installing"
LOCK = ".grader-lock"
LOG = "install.log"

# What a command needs besides the base installation. A command that is not listed is the instructor's.
EXTRAS_OF = {"lab": [], "mistakes": [], "bench": [], "progress": [], "test": ["test"]}

HELP = """GRPO from scratch. On a fresh machine each of these first makes .venv and installs what it needs.

  make lab        open the course in JupyterLab; your copies of the chapters are in my_course/
                  (from chapter 06 on, with torch: make lab EXTRAS=qwen3)
  make test       install everything and run all tests
  make grade      grade grading/submitted into grading/report
  make release    regenerate notebooks/ from solutions/
  make mistakes   run every known mistake against its check
  make attacks    grade the bank of hostile submissions, which must gain nothing
  make bench      measure the trainers on this machine

Without make: python -m grader lab, python -m grader test, and so on. More: python -m grader COMMAND --help
"""


class Stop(Exception):
    """Something the user has to know or do. The text is complete: what failed, and the next step."""


def main(argv: list[str]) -> int:
    """Run one command, preparing its Python first if needed. Returns the exit status; never raises."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, ValueError):
            stream.reconfigure(errors="replace")
    try:
        if argv[:1] == [INSIDE]:
            return run(argv[1:])
        if not argv or argv[0] in ("help", "-h", "--help"):
            print(HELP, end="")
            return 0
        if not supported(sys.version_info):
            # The system's python3 may be too old and .venv made by a newer one: then all is well.
            if not supported(look_into(venv_folder())["version"]):
                raise Stop(unsupported_text())
            return hand_over(str(venv_python()), argv)
        python = ensure(wanted_extras(argv))
        if python == sys.executable:
            return run(argv)
        return hand_over(python, [INSIDE, *argv])
    except Stop as stop:
        sys.stdout.flush()
        print(f"\n{stop}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nStopped. The same command starts again from here.", file=sys.stderr)
        return 130


def run(argv: list[str]) -> int:
    """Run a command in this Python, which has everything the command needs."""
    command, rest = argv[0], argv[1:]
    if command == "lab":
        from grader import lab

        return lab.main(rest)
    if command == "test":
        return run_tests(rest)
    if command == "bench":
        return attached([sys.executable, "-m", "grpo.cli", "bench", *rest])
    from grader import cli

    sys.argv = ["grader", *argv]
    return cli.main() or 0


def run_tests(pytest_args: list[str]) -> int:
    """Run pytest on this checkout: a process per core, one thread each, no display. Returns pytest's exit status."""
    if find_chromium() is None:
        say("Chromium was not found: tests that need a browser are skipped. To run them, install chromium.")
    if sys.platform.startswith("linux") and shutil.which("bwrap") is None:
        say("bwrap was not found: tests that need a sandbox are skipped. To run them, install bubblewrap.")
    # Two threads on a shared two-core machine make small matrices many times slower, not faster.
    env = dict(os.environ, OMP_NUM_THREADS="1", MPLBACKEND="agg")
    # More arguments are most often about a few tests, for which starting processes is not worth it.
    spread = [] if pytest_args else ["-n", "auto", "--dist", "loadscope"]
    return attached([sys.executable, "-m", "pytest", *spread, *pytest_args], cwd=str(ROOT), env=env)


def find_chromium() -> str | None:
    """Path of an installed Chromium or Chrome, or None."""
    mac = "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", mac)
    return next((path for path in map(shutil.which, names) if path), None)


# ---- which Python ------------------------------------------------------------------------------------------------


def supported(version) -> bool:
    """Whether the course runs on this Python version, a sequence (major, minor, ...); empty means unknown."""
    return OLDEST <= tuple(version)[:2] <= NEWEST


def unsupported_text() -> str:
    found = "{}.{}.{}".format(*sys.version_info[:3])
    asked = "This course needs Python {}.{} to {}.{}".format(*OLDEST, *NEWEST)
    newer = next((name for name in ("python3.13", "python3.12", "python3.11") if runs(name)), None)
    if newer:
        return f"{asked}, and {sys.executable} is {found}; {newer} is installed here, so run: make lab PYTHON={newer}"
    return f"{asked}, and {sys.executable} is {found}: install Python 3.12, from python.org or your package manager."


def runs(name: str) -> bool:
    path = shutil.which(name)
    if path is None:
        return False
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        subprocess.run([path, "-c", ""], check=True, capture_output=True, timeout=20, stdin=subprocess.DEVNULL)
        return True
    return False


def wanted_extras(argv: list[str]) -> list[str]:
    """The extras that a command line needs, sorted, with those that they include.

    Raises:
        Stop: `--extras` names one that pyproject.toml does not have.
    """
    names = list(EXTRAS_OF.get(argv[0], ["instructor"]))
    if argv[0] == "lab":
        names += extras_option(argv[1:])
    return expand(names)


def extras_option(args: list[str]) -> list[str]:
    """The names given as `--extras a,b`, `--extras=a` or `--extras "a b"`, in order."""
    found = []
    for i, arg in enumerate(args):
        if arg == "--":
            break
        if arg == "--extras" and i + 1 < len(args):
            found.append(args[i + 1])
        elif arg.startswith("--extras="):
            found.append(arg.split("=", 1)[1])
    return re.findall(r"[^\s,]+", " ".join(found))


def project_table() -> dict:
    """The [project] table of pyproject.toml."""
    import tomllib  # Python 3.11; an older one never comes this far

    try:
        with open(ROOT / "pyproject.toml", "rb") as file:
            return tomllib.load(file)["project"]
    except (OSError, KeyError, ValueError) as error:
        raise Stop(
            f"The course's pyproject.toml cannot be read in {ROOT}: {error}\n"
            "Next: run the command inside the cloned folder; if it is damaged, `git checkout pyproject.toml`."
        ) from None


def expand(extras: list[str]) -> list[str]:
    """Extras with the extras that they include (test includes instructor), sorted."""
    known = project_table().get("optional-dependencies", {})
    todo, done = list(extras), set()
    while todo:
        name = todo.pop()
        if name not in known:
            raise Stop(f"There is no extra called {name!r}; there are {', '.join(sorted(known))}.")
        if name not in done:
            done.add(name)
            for requirement in known[name]:
                if distribution(requirement) == PROJECT and "[" in requirement:
                    todo += re.findall(r"[\w.-]+", requirement.split("[", 1)[1].split("]", 1)[0])
    return sorted(done)


def distribution(requirement: str) -> str:
    """The package name at the start of a requirement: "numpy>=2.1" gives "numpy"."""
    return re.match(r"[\w.-]+", requirement).group()


def missing(extras: list[str]) -> list[str]:
    """What this Python lacks of the course: names of packages; the course itself counts too.

    The course is there only if it is installed editable from this very checkout: the notebooks' kernel, which does not
    start in this folder, must import these files and no older copy.
    """
    table = project_table()
    needed = list(table["dependencies"])
    for name in expand(extras):
        needed += table["optional-dependencies"][name]
    absent = [name for name in map(distribution, needed) if name != PROJECT and not has(name)]
    return absent if same_path(installed_from() or "", ROOT) else [PROJECT, *absent]


def has(name: str) -> bool:
    try:
        importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def installed_from() -> Path | None:
    """The folder that the course is installed from, if it is installed editable in this Python."""
    try:
        about = importlib.metadata.distribution(PROJECT).read_text("direct_url.json")
        record = json.loads(about or "{}")
        if record["dir_info"].get("editable"):
            return Path(url2pathname(urlparse(record["url"]).path))
    except (importlib.metadata.PackageNotFoundError, KeyError, TypeError, ValueError):
        pass
    return None


# ---- .venv -------------------------------------------------------------------------------------------------------


def venv_folder() -> Path:
    return ROOT / ".venv"


def venv_python() -> Path:
    return venv_folder() / ("Scripts/python.exe" if WINDOWS else "bin/python")


def running_in_venv() -> bool:
    return same_path(sys.prefix, venv_folder())


def digest() -> str:
    """Changes whenever what has to be installed changes."""
    files = [ROOT / "pyproject.toml", ROOT / "constraints.txt"]
    return hashlib.sha256(b"\0".join(file.read_bytes() if file.exists() else b"" for file in files)).hexdigest()


def read_stamp() -> dict | None:
    """What the last finished installation left in .venv, or None."""
    try:
        stamp = json.loads((venv_folder() / STAMP).read_text(encoding="utf-8"))
        valid = isinstance(stamp["digest"], str) and isinstance(stamp["root"], str)
        return stamp if valid and all(isinstance(name, str) for name in stamp["extras"]) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write_stamp(extras: list[str], what: str) -> None:
    part = venv_folder() / (STAMP + ".part")
    part.write_text(json.dumps({"digest": what, "extras": extras, "root": str(ROOT)}), encoding="utf-8")
    os.replace(str(part), str(venv_folder() / STAMP))


def is_current(stamp: dict | None, extras: list[str]) -> bool:
    if stamp is None or (venv_folder() / UNFINISHED).exists():
        return False
    return stamp["digest"] == digest() and set(extras) <= set(stamp["extras"]) and same_path(stamp["root"], ROOT)


def same_path(one: str | Path, other: str | Path) -> bool:
    """Whether two paths are the same existing file or folder, however they are written."""
    try:
        return os.path.samefile(str(one), str(other))
    except OSError:
        return False


def look_into(venv: Path, extras: list[str] | None = None) -> dict:
    """Start the Python of .venv and ask it: version, whether it has pip, and what the course lacks there.

    Returns:
        `{"version": [3, 11], "pip": True, "missing": [...] or None}`; version [] when it does not even start, missing
        None when the course is not importable there or when `extras` is None (not asked).
    """
    code = (
        "import importlib.util, json, sys\n"
        "lack = None\n"
        "try:\n"
        "    from grader import bootstrap\n"
        "    lack = bootstrap.missing(json.loads(sys.argv[1])) if sys.argv[1] != 'null' else None\n"
        "    lack = lack if bootstrap.same_path(bootstrap.ROOT, sys.argv[2]) else None\n"
        "except Exception: pass\n"
        "pip = importlib.util.find_spec('pip') is not None\n"
        "print(json.dumps({'version': sys.version_info[:2], 'pip': pip, 'missing': lack}))\n"
    )
    nothing = {"version": [], "pip": False, "missing": None}
    python = venv / venv_python().relative_to(venv_folder())
    try:
        command = [str(python), "-I", "-c", code, json.dumps(extras), str(ROOT)]
        done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=120)
        return json.loads(done.stdout) if done.returncode == 0 else nothing
    except (OSError, ValueError, subprocess.SubprocessError):
        return nothing


def ensure(extras: list[str]) -> str:
    """Return the path of a Python that has the course and `extras`, installing into .venv if needed.

    Raises:
        Stop: something failed, with the text for the user.
    """
    extras = expand(extras)
    # In a .venv with a stamp the stamp decides, since it also knows of changed versions; any other Python is asked.
    outdated = running_in_venv() and read_stamp() and not is_current(read_stamp(), extras)
    if not outdated and not missing(extras):
        return sys.executable
    if not venv_is_ready(extras):
        try:
            with locked(venv_folder()) as lock:
                if not venv_is_ready(extras):  # else another process did it while we waited
                    install(extras, lock)
        except OSError as error:
            raise Stop(describe(error, venv_folder())) from None
    return str(venv_python())


def venv_is_ready(extras: list[str]) -> bool:
    if not is_current(read_stamp(), extras):
        return False
    found = look_into(venv_folder(), extras)
    return found["missing"] == [] and found["pip"]


def install(extras: list[str], lock=None) -> None:
    """Make .venv fit for `extras`: rebuild it if it cannot be trusted, run pip, write the stamp. Needs the lock."""
    venv, stamp = venv_folder(), read_stamp()
    if stamp:  # what was installed before stays installed
        known = project_table().get("optional-dependencies", {})
        extras = expand([*extras, *(name for name in stamp["extras"] if name in known)])
    start = time.monotonic()
    reason = why_not(venv, stamp)
    if reason:
        say(f"The folder .venv cannot be used ({reason}); making it anew.")
    (venv / UNFINISHED).touch()
    if reason is not None:
        clear(venv)
    write_stamp(extras, "")  # until pip is through: the extras are remembered, but nothing counts as installed
    with contextlib.suppress(FileNotFoundError):
        (venv / LOG).unlink()
    if reason is not None:
        maker = getattr(sys, "_base_executable", sys.executable) if running_in_venv() else sys.executable
        say("Making .venv, a Python environment for this course alone…")
        step([maker, "-I", "-m", "venv", str(venv)], "Making the virtual environment .venv", lock)
    pip = [str(venv_python()), "-I", "-m", "pip", "install", "--no-input", "--disable-pip-version-check"]
    pip += ["--progress-bar", "off", "-e", ".[{}]".format(",".join(extras)) if extras else "."]
    if (ROOT / "constraints.txt").exists():
        pip += ["-c", "constraints.txt"]
    if reason is None and stamp and stamp["digest"]:
        say("The course needs other packages than are installed; installing them…")
    else:
        say("Installing the course ({}; once)…".format("a few minutes" if "qwen3" in extras else "about a minute"))
    step(pip, "Installing the course with pip", lock, env=pip_environment())
    write_stamp(extras, digest())
    (venv / UNFINISHED).unlink()
    say(f"Installed in {time.monotonic() - start:.0f} s.")


def why_not(venv: Path, stamp: dict | None) -> str | None:
    """Why a .venv must be made anew: a reason; "" when there is none yet; None when it can be used.

    Raises:
        Stop: it holds things that no virtual environment has, so it may be somebody's work.
    """
    names = {path.name for path in venv.iterdir()} - {LOCK, LOG, UNFINISHED, STAMP}
    if not names:
        return ""
    usual = {"bin", "scripts", "include", "lib", "lib64", "share", "etc"}
    strangers = sorted(name for name in names if name.lower() not in usual and name[0] != ".")
    if strangers and not (venv / "pyvenv.cfg").exists():
        raise Stop(
            f"{venv} is not a virtual environment: it holds {', '.join(strangers[:3])}.\n"
            "Next: move that folder away, then run the same command again."
        )
    if (venv / UNFINISHED).exists():
        return "an installation was interrupted"
    if stamp and not same_path(stamp["root"], ROOT):
        return "the course's folder was moved or copied"
    found = look_into(venv)
    if not found["version"]:
        return "its Python does not start; was the Python that made it removed?"
    if not supported(found["version"]):
        return "it has Python {}.{}".format(*found["version"])
    return None if found["pip"] else "it has no pip"


def clear(venv: Path) -> None:
    """Empty the folder of a virtual environment, but for our own files and the lock that we hold in it."""
    for path in venv.iterdir():
        if path.name in (LOCK, UNFINISHED, STAMP):
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(str(path))
        else:
            path.unlink()


def pip_environment() -> dict:
    """The environment for pip, without the settings that would send packages elsewhere than into .venv."""
    elsewhere = ("PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_REQUIRE_VIRTUALENV", "PIP_DRY_RUN")
    return dict({k: v for k, v in os.environ.items() if k not in elsewhere}, PIP_USER="0")


@contextlib.contextmanager
def locked(venv: Path):
    """Hold the one lock on .venv, waiting for another process if needed. The system frees it when a process dies."""
    if os.path.lexists(str(venv)) and not venv.is_dir():
        raise Stop(f"{venv} is in the way: it is not a folder.\nNext: move it away, then run the same command again.")
    venv.mkdir(exist_ok=True)
    with open(venv / LOCK, "a+b") as file:
        try:
            lock_file(file, wait=False)
        except OSError as error:
            if error.errno in (errno.EACCES, errno.EAGAIN, errno.EDEADLK):
                say("Another process is installing the course; waiting for it…")
                lock_file(file, wait=True)
            # else: a file system without locks; better to go on than to refuse
        yield file


def lock_file(file, wait: bool) -> None:
    if not WINDOWS:
        import fcntl

        fcntl.flock(file.fileno(), fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        return
    import msvcrt

    file.seek(0)
    while True:
        try:
            return msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        except OSError:
            if not wait:
                raise
            time.sleep(0.5)


# ---- running and reporting ---------------------------------------------------------------------------------------


def say(text: str) -> None:
    print(text, flush=True)


def step(command: list[str], title: str, lock=None, env: dict | None = None) -> None:
    """Run one step of the installation quietly, its output in a log. On a terminal one line shows that it lives.

    Raises:
        Stop: it failed; the text has the end of the output and what to do next.
    """
    lines: list[str] = []
    log, name = open_log()
    with log:
        log.write("$ " + " ".join(command) + "\n")
        # The child keeps the lock too: were this process killed, nobody else would start while pip still writes.
        keep = {} if WINDOWS or lock is None else {"pass_fds": (lock.fileno(),)}
        try:
            child = subprocess.Popen(
                command,
                cwd=str(ROOT),
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                encoding="utf-8",
                errors="replace",
                **keep,
            )
        except OSError as error:
            raise Stop(f"{title} failed: {error}\nNext: check that this starts: {command[0]} --version") from None
        try:
            for line in with_clock(child.stdout):
                log.write(line)
                lines.append(line.rstrip())
            status = child.wait()
        except BaseException:
            child.kill()
            child.wait()
            raise
    if status == 0:
        return
    text = "\n".join(lines)
    if not re.search(r"^Installing collected packages", text, re.MULTILINE) and "pip" in command:
        # pip changes nothing before that line, so .venv is as good as it was.
        with contextlib.suppress(OSError):
            (venv_folder() / UNFINISHED).unlink()
    reason, next_step = advice(text)
    tail = [line for line in lines if line.strip() and not line.startswith("WARNING")][-8:]
    if reason.startswith("WARNING"):  # a connection that fails; what pip says after that misleads
        tail = [reason]
    elif reason and reason not in tail:
        tail.insert(0, reason)
    quoted = "\n".join("  | " + line[:300] for line in tail)
    raise Stop(
        f"{title} failed (exit status {status}). The end of its output:\n{quoted}\nAll of it: {name}\nNext: {next_step}"
    )


def open_log():
    """A text file for the output of the installation, and its name: in .venv, or in the temporary folder."""
    try:
        name = str(venv_folder() / LOG)
        return open(name, "a", encoding="utf-8"), name
    except OSError:
        number, name = tempfile.mkstemp(prefix="grpo-install-", suffix=".log")
        return open(number, "w", encoding="utf-8"), name


def with_clock(stream):
    """Yield the lines of a stream. On a terminal, also show seconds and the current line, rewritten in place."""
    if not sys.stdout.isatty():
        yield from stream
        return
    lines: queue.Queue = queue.Queue()

    def read() -> None:
        for line in stream:
            lines.put(line)
        lines.put(None)

    threading.Thread(target=read, daemon=True).start()
    start, last = time.monotonic(), ""
    try:
        while True:
            with contextlib.suppress(queue.Empty):
                line = lines.get(timeout=0.5)
                if line is None:
                    return
                last = line.strip()
                yield line
            width = shutil.get_terminal_size().columns - 1
            text = f"  {time.monotonic() - start:4.0f} s  {last}"
            print("\r" + text[:width].ljust(width), end="", flush=True)
    finally:
        print("\r" + " " * (shutil.get_terminal_size().columns - 1) + "\r", end="", flush=True)


def advice(output: str) -> tuple[str, str]:
    """The line of a failed installation's output that says why ("" if none does), and the one next step."""
    again = "then run the same command again."
    rules = (
        (
            r"No space left|Disk quota exceeded|not enough space",
            f"free some disk space (the course takes .6 GB, with torch 2 GB or more), {again}",
        ),
        (r"ensurepip|No module named '?venv", f"{venv_package()}, {again}"),
        (
            r"CERTIFICATE_VERIFY_FAILED|SSLError|SSL module is not available",
            f"pip does not trust the connection; behind a proxy, set PIP_CERT to its certificate file, {again}",
        ),
        (
            r"NewConnectionError|NameResolution|Name or service not known|getaddrinfo|Network is unreachable|timed out"
            r"|Connection (?:refused|reset|aborted|broken)|ProxyError|IncompleteRead|end closed connection",
            f"check the internet connection (behind a proxy, set HTTPS_PROXY), {again}",
        ),
        (
            r"Read-only file system|Permission denied|Access is denied|WinError (?:5|32)\b",
            f"close programs that use .venv and check that you may write to {ROOT}, {again}",
        ),
        (
            r"No matching distribution|Could not find a version|ResolutionImpossible|conflicting dependencies"
            r"|Failed building wheel|metadata-generation-failed",
            "a package has no build for this system or this Python. Python 3.12 has the most: "
            "delete .venv and run the command with it (make lab PYTHON=python3.12).",
        ),
    )
    for pattern, text in rules:
        found = re.search(f"^.*(?:{pattern}).*$", output, re.MULTILINE)
        if found:
            return found.group().rstrip(), text
    return "", f"delete the folder {venv_folder()}, {again} If it fails again, report it with that log."


def venv_package() -> str:
    """What to do where `python -m venv` got no pip: Debian and its kin keep that part in a package of its own."""
    found = importlib.util.find_spec("ensurepip")
    if found is not None and found.origin:
        return "check that the disk and the folder for temporary files have space and can be written"
    name = "python{}.{}-venv".format(*sys.version_info[:2])
    if shutil.which("apt-get"):
        return f"this Python comes without venv: run `sudo apt-get install {name}`"
    return f"this Python comes without venv: install the package that has it (often {name})"


def describe(error: OSError, path: Path) -> str:
    """A failed file operation in words, with the next step."""
    where = error.filename or path
    if error.errno in (errno.ENOSPC, getattr(errno, "EDQUOT", -1)):
        return f"The disk is full: {where} cannot be written.\nNext: free some space, then run the same command again."
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return (
            f"{where} cannot be written: {error.strerror}.\n"
            "Next: copy the course to a folder of your own and run the same command there"
            + (" (or close programs that use .venv)." if WINDOWS else ".")
        )
    return f"{where}: {error.strerror or error}.\nNext: check that path, then run the same command again."


def hand_over(python: str, argv: list[str]) -> int:
    """Continue as `python -m grader argv`: in place of this process, or on Windows below it."""
    command, env = [python, "-m", "grader", *argv], own_environment()
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        if not WINDOWS:
            os.execve(python, command, env)
        return attached(command, env=env)
    except OSError as error:
        raise Stop(describe(error, Path(python))) from None


def own_environment() -> dict:
    """The environment for a Python of ours and its kernels, without what would put other packages before its own."""
    others = ("PYTHONPATH", "PYTHONHOME", "__PYVENV_LAUNCHER__")
    return {key: value for key, value in os.environ.items() if key not in others}


def attached(command: list[str], cwd: str | None = None, env: dict | None = None) -> int:
    """Run a program in the foreground and return its exit status.

    Ctrl-C reaches the program from the terminal; here we only wait for what it makes of it. SIGTERM and SIGHUP, which
    reach this process alone, are passed on.
    """
    sys.stdout.flush()
    child = subprocess.Popen(command, cwd=cwd, env=env)
    before = {}
    if threading.current_thread() is threading.main_thread():
        for name in ("SIGTERM", "SIGHUP"):
            if hasattr(signal, name):
                number = getattr(signal, name)
                before[number] = signal.signal(number, lambda number, frame: child.send_signal(number))
    try:
        while True:
            try:
                status = child.wait()
                return status if status >= 0 else 128 - status
            except KeyboardInterrupt:
                continue
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
