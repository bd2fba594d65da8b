"""Every chapter as a student sees it: JupyterLab in Chromium, run all cells, look at what is on the screen.

The idle light proves nothing, so the cells themselves are read: each must carry an execution count. Set
GRPO_SCREENSHOTS to a folder to keep pictures of every chapter, one screenful each.
"""

import json
import os
import re
import shutil
import time
from pathlib import Path

import pytest
from browsing import jupyterlab, start_chromium

from grader.bootstrap import find_chromium
from grader.paths import NOTEBOOKS, SOLUTIONS, chapters

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = find_chromium()
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine (apt-get install chromium)")
SECONDS = 180

RUN_ALL = """
async () => {
  const app = window.jupyterapp;
  await app.restored;
  const panel = app.shell.currentWidget;
  await panel.context.ready;
  await panel.sessionContext.ready;
  await app.commands.execute('notebook:run-all-cells');
}
"""
READ = "() => window.jupyterapp.shell.currentWidget.content.model.toJSON()"


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """A JupyterLab of its own on copies of all chapters: (address, token)."""
    folder = tmp_path_factory.mktemp("lab")
    shutil.copytree(NOTEBOOKS, folder / "work" / "notebooks")
    shutil.copytree(SOLUTIONS, folder / "work" / "solutions")
    settings = folder / "settings" / "@jupyterlab"
    for name, content in {
        "notebook-extension/tracker": {"autoStartDefaultKernel": True, "windowingMode": "none"},
        "apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False},
    }.items():
        file = settings / f"{name}.jupyterlab-settings"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(content))
    variables = {
        "JUPYTERLAB_SETTINGS_DIR": str(folder / "settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(folder / "workspaces"),
    }
    with jupyterlab(folder / "work", folder, variables, ("--LabApp.expose_app_in_browser=True",)) as address:
        yield address


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as p:
        chromium = start_chromium(p, CHROMIUM)
        yield chromium
        chromium.close()


def code_cells(notebook):
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code" and "".join(cell["source"]).strip()]


def run_all(page, address, path):
    """Open a notebook, run all its cells, and return it as JupyterLab holds it."""
    page.goto(f"{address}/lab/tree/{path}?token=course&reset")
    page.wait_for_function(
        "() => window.jupyterapp && window.jupyterapp.shell.currentWidget"
        " && window.jupyterapp.shell.currentWidget.context && window.jupyterapp.shell.currentWidget.content.model",
        timeout=SECONDS * 1000,
    )
    page.evaluate(RUN_ALL)
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        notebook = page.evaluate(READ)
        if all(cell["execution_count"] for cell in code_cells(notebook)):
            return notebook
        time.sleep(0.5)
    waiting = [index for index, cell in enumerate(code_cells(notebook)) if not cell["execution_count"]]
    pytest.fail(f"{path}: code cells {waiting} did not run within {SECONDS} s")


@pytest.mark.parametrize("chapter", chapters())
@pytest.mark.parametrize("kind", ["notebooks", "solutions"])
def test_a_chapter_runs_in_jupyterlab(lab, browser, kind, chapter):
    page = browser.new_page(viewport={"width": 1200, "height": 1600})
    try:
        notebook = run_all(page, lab, f"{kind}/{chapter}/{chapter}.ipynb")
        outputs = [output for cell in code_cells(notebook) for output in cell["outputs"]]
        assert not [o for o in outputs if o["output_type"] == "error" or o.get("name") == "stderr"]
        said = page.locator(".jp-OutputArea-output").all_inner_texts()
        checks = sum("".join(cell["source"]).strip().startswith("check(") for cell in code_cells(notebook))
        wanted = r"not attempted, \d+ points" if kind == "notebooks" else r"(\d+) of \1 points"
        assert sum(bool(re.search(wanted, text)) for text in said) == checks > 0
        broken = page.locator(".jp-MarkdownOutput").filter(has_text="Failed to parse").count()
        assert broken == 0
        keep_pictures(page, kind, chapter)
    finally:
        page.close()


def keep_pictures(page, kind, chapter):
    folder = os.environ.get("GRPO_SCREENSHOTS")
    if not folder:
        return
    Path(folder).mkdir(parents=True, exist_ok=True)
    panel = page.locator(".jp-WindowedPanel-outer").first
    height = panel.evaluate("e => e.scrollHeight")
    step = panel.evaluate("e => e.clientHeight")
    for number, top in enumerate(range(0, height, step)):
        panel.evaluate("(e, y) => { e.scrollTop = y; }", top)
        page.wait_for_timeout(300)
        page.screenshot(path=f"{folder}/{chapter}-{kind}-{number:02}.png")
