"""What an instructor should look at in a submission: acts that earn nothing, and those that no check sees.

Read off the sources of the student's own cells (those of the release are known) and off what the kernel sent. A flag
is no verdict: each names the cell and the act, and leaves it to a person what it means.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache

import nbformat
from nbformat import NotebookNode

from grader.classroom.cells import cell_name
from grader.classroom.repair import grade_id_of
from grader.classroom.repair_cells import defines
from grader.exercises import EXERCISES
from grader.judge.names import MAX_NAME, Seen, read, without_comments
from grader.judge.reach import Reach
from grader.paths import NOTEBOOKS, notebook_path

PARTS = "names parts of the grader that no exercise needs"
# A word in a cell -> what the cell does with it. Words of attributes are written with their dot.
WORDS = {
    r"grader\.judge|grader\.exercises|\bEXERCISES\b|grpo-course|GRPO_CHECK_SEED|grader\.calling|grader\.plain":
        PARTS,
    r"input_transformers|ast_transformers|\bdo_execute\b|\.run_cell|custom_exc|showtraceback|\.iopub_socket"
    r"|\.session\.send|events\.register|get_ipython\(\)\.kernel|asyncio\.get_event_loop\(\)\.call_soon":
        "changes how the kernel runs cells or what it reports",
    r"\bsys\.modules\b|\bsys\.meta_path\b|\bsys\.settrace\b|setrecursionlimit":
        "changes how Python imports or runs code",
    r"\b_getframe\b|\bf_locals\b|\bf_back\b|\bgc\.get_objects\b|\binspect\.(stack|currentframe)\b":
        "looks into what calls it",
    r"\b__(globals|closure|subclasses|builtins)__\b|\buser_(global_)?ns\b|\bget_ipython\(\)\.(ev|ex)\b":
        "looks into the insides of functions or of Python",
    r"\b_?pickle\.loads?\b|\bfrom _?pickle\b|\bmarshal\b|\bcloudpickle\b|\bdill\b|\ballow_pickle *= *True":
        "makes functions or objects out of bytes",
    r"\bsocket\b|\burllib\b|\brequests\b|\bhttp\.client\b|\bcreate_connection\b": "tries the network",
    r"\bctypes\b|\bptrace\b|\bos\.(fork|kill|setuid|chroot|execv|_exit)\b|\bsubprocess\b|\bos\.system\b|^!.*\bkill\b":
        "starts, ends or changes processes",
    r"\bsignal\.(signal|setitimer|SIG)|\batexit\b": "takes over signals or the end of the process",
    r"\bsolutions/|\bgradebook|/proc/|/etc/|\.\./|kernel\.json|\bsys\.argv\b|sqlite3":
        "names files that are not its own",
}  # fmt: skip
BAD_RESULTS = ("NoResult",)
RAN_FINISHED = "ran_finished"  # in the metadata of the judge's report
MAX_WAY = 3  # names told of the way to a finished function


def flags(notebook: NotebookNode, remarks: Sequence[str] = ()) -> tuple[str, ...]:
    """Return sentences about what stands out in a judged notebook, each once; () where nothing does.

    Args:
        notebook: rebuilt and judged: answer cells by grade_id, the judge's reports in the check cells.
        remarks: what was said before about the submission (of its file, its marks); they come first.
    """
    known = {source for chapter in _chapters(notebook) for source in _released(chapter)}
    names = {grade_id_of(cell) for cell in notebook.cells} & set(EXERCISES)
    found = list(remarks)
    reach = Reach([cell.source if cell.cell_type == "code" else "" for cell in notebook.cells], names)
    ways = dict(_ways(notebook, reach, names))
    own = [cell.source for cell in notebook.cells if cell.cell_type == "code" and cell.source.strip() not in known]
    files = set(re.findall(r"\b(\w+)\.py\b", "\n".join(own)))
    for index, cell in enumerate(notebook.cells):
        if cell.cell_type != "code" or cell.source.strip() in known:
            continue
        answer = grade_id_of(cell).removesuffix("_answer") if grade_id_of(cell).endswith("_answer") else ""
        seen = read(cell.source, names, answer, frozenset(reach.packages), reach.made)
        if answer and sum(defines(cell.source, name) for name in names) > 1:  # what is called there may be for another
            seen.used = [name for name in seen.used if name != answer or answer in ways]
        acts = [*_acts(cell.source, seen, answer, answer in ways)]
        acts += [way for name, (at, way) in ways.items() if at == index and name not in seen.imported]
        acts += [f"imports {name[:MAX_NAME]}, a file that the notebook names itself" for name in seen.roots & files]
        if not seen.python and _ran(cell):
            acts.append("could not be read for what it does (no Python, and yet it ran)")
        name = cell_name(notebook.cells, index) if acts else ""
        found += [f"{name} {what}" for what in acts]
    for cell in notebook.cells:
        name = grade_id_of(cell)
        if any(output.get("metadata", {}).get(RAN_FINISHED) for output in cell.get("outputs", [])):
            told = name in ways or any(f"the finished {name}" in said for said in found)
            found += [] if told else [f"{name}: the finished {name} ran when the answer was tested"]
        found += [
            f"{grade_id_of(cell)}: the kernel sent something else than the results of its function"
            for output in cell.get("outputs", [])
            if output.output_type == "error" and output.ename in BAD_RESULTS
        ]
    return tuple(dict.fromkeys(found))


def _ran(cell: NotebookNode) -> bool:
    """Tell whether a cell was executed and Python took it for Python."""
    said = [output.get("ename") for output in cell.get("outputs", []) if output.output_type == "error"]
    return cell.get("execution_count") is not None and not set(said) & {"SyntaxError", "IndentationError", "TabError"}


def _ways(notebook: NotebookNode, reach: Reach, names: set[str]) -> Iterator[tuple[str, tuple[int, str]]]:
    """Yield (exercise, (index of the cell that binds it, how that comes to the finished function)) where it does."""
    for index, cell in enumerate(notebook.cells):
        name = grade_id_of(cell)
        way = reach.way(name, index) if name in names else None
        if way and len(way) > 1:
            through = ", ".join(one[:MAX_NAME] for one, _ in way[1 : 1 + MAX_WAY])
            there = cell_name(notebook.cells, way[-1][1])
            yield name, (way[0][1], f"reaches the finished {name} through {through} ({there})")
        elif way:
            yield name, (way[0][1], f"calls the finished {name}")


def _acts(source: str, seen: Seen, answer: str, reached: bool) -> Iterator[str]:
    source = without_comments(source)
    for word, act in WORDS.items():
        if re.search(word, source, re.MULTILINE):
            yield act
    if seen.unread:
        yield f"could not be read for what it does ({seen.unread})"
    if seen.grader:
        yield PARTS
    if seen.everything:
        yield "imports everything of grpo, the finished functions too"
    for name in dict.fromkeys(seen.imported):
        yield f"imports the finished {name}"
    for name in dict.fromkeys(seen.kept if not answer else []):
        yield f"keeps the finished {name} under another name"
    for name in dict.fromkeys(seen.around):
        yield f"uses the module {name} as a value, through which any of its functions can be reached"
    if answer in seen.used:
        yield f"calls the finished {answer}"
    elif seen.foreign and not reached and not seen.around and answer not in seen.imported:
        yield f"binds {answer} to something else than a function that is written in it"
    if seen.replaced:
        yield f"replaces {', '.join(dict.fromkeys(seen.replaced))}"
    if seen.hiding:
        yield f"builds code or names while it runs ({', '.join(dict.fromkeys(seen.hiding))})"


def _chapters(notebook: NotebookNode) -> set[str]:
    return {EXERCISES[name].chapter for name in map(grade_id_of, notebook.cells) if name in EXERCISES}


@cache
def _released(chapter: str) -> frozenset[str]:
    path = notebook_path(NOTEBOOKS, chapter)
    if not path.is_file():
        return frozenset()
    return frozenset(cell.source.strip() for cell in nbformat.read(path, as_version=4).cells)
