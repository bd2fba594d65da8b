"""environment.yml, for conda users, asks for what pyproject.toml asks for: the same packages in the same ranges."""

import re
import tomllib

import pytest

from grader.paths import ROOT

yaml = pytest.importorskip("yaml")
CONDA_NAMES = {"torch": "pytorch", "playwright": "playwright-python"}


def split(requirement):
    name, versions = re.match(r"([\w.-]+)\s*(.*)", requirement).groups()
    return name.lower(), ",".join(sorted(versions.replace(" ", "").split(",")))


def test_same_packages_and_ranges():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    groups = [project["dependencies"], *project["optional-dependencies"].values()]
    asked = {"python": split("python " + project["requires-python"])[1]}
    for requirement in (one for group in groups for one in group):
        name, versions = split(requirement)
        if name != project["name"]:
            asked[CONDA_NAMES.get(name, name)] = versions

    conda = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))
    assert conda["name"] == project["name"]
    packages = [split(one) for one in conda["dependencies"] if isinstance(one, str)]
    packages += [split(one) for one in conda["dependencies"][-1]["pip"][:-1]]
    assert len(packages) == len(dict(packages))
    given = dict(packages)
    assert given.pop("pip") == ""
    assert given == asked


def test_pip_comes_last_and_adds_two_packages_and_the_course():
    last = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))["dependencies"][-1]
    assert last == {"pip": ["latex2mathml>=3.77,<4", "math-verify>=0.9,<0.10", "-e ."]}
