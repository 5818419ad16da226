"""What `make` installs: constraints.txt names every dependency, and the lock has hashes of each but torch."""

import importlib.metadata
import pathlib
import re
import tomllib

import pytest
from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name as canonical

ROOT = pathlib.Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
ENVIRONMENTS = [
    {
        "sys_platform": platform,
        "platform_system": system,
        "python_version": python,
        "python_full_version": f"{python}.0",
    }
    for platform, system in (("linux", "Linux"), ("darwin", "Darwin"))
    for python in ("3.11", "3.12", "3.13")
]
# The companions of torch's CUDA builds come with torch, from wherever it comes.
WITH_TORCH = re.compile(r"nvidia-.*|cuda-.*|triton.*")


def pins(text):
    """Name -> version by marker of the lines `name==version ; marker` in a file for pip."""
    found = re.findall(r"^([A-Za-z0-9_.-]+)==([^\s;\\]+)(?: ; ([^\\\n]+))?", text, flags=re.MULTILINE)
    names = {canonical(name) for name, _, _ in found}
    by_name = {name: {_plain(m): v for n, v, m in found if canonical(n) == name} for name in names}
    assert sum(map(len, by_name.values())) == len(found)
    for environment in ENVIRONMENTS:  # one version in each
        for markers in by_name.values():
            assert sum(not m or Marker(m).evaluate(environment) for m in markers) == 1, markers
    return by_name


def _plain(marker):
    """Written one way, whether by uv or by hand."""
    return str(Marker(marker)).replace("python_full_version", "python_version") if marker else ""


CONSTRAINTS = pins((ROOT / "constraints.txt").read_text())
LOCK_TEXT = (ROOT / "requirements-dev.lock").read_text()
LOCK = pins(LOCK_TEXT)


def requirements_of(name, extras):
    """What a package requires, as lines of metadata; ours from pyproject.toml, which is never out of date."""
    if name == "modeseek":
        optional = PROJECT["optional-dependencies"]
        return [*PROJECT["dependencies"], *(line for extra in extras for line in optional[extra])]
    try:
        return importlib.metadata.requires(name) or []
    except importlib.metadata.PackageNotFoundError:  # of another platform, or not installed here yet
        return []


def closure(environment):
    """Every package that modeseek[dev] needs there, itself excluded."""
    todo, seen = [("modeseek", frozenset({"dev"}))], set()
    while todo:
        if (item := todo.pop()) in seen:
            continue
        seen.add(item)
        name, extras = item
        for line in requirements_of(name, extras):
            requirement = Requirement(line)
            wanted = requirement.marker is None or any(
                requirement.marker.evaluate({**environment, "extra": extra}) for extra in extras or {""}
            )
            if wanted:
                todo.append((canonical(requirement.name), frozenset(requirement.extras)))
    return {name for name, _ in seen} - {"modeseek"}


@pytest.mark.parametrize("environment", ENVIRONMENTS, ids=lambda e: f"{e['sys_platform']}-{e['python_version']}")
def test_every_dependency_is_pinned(environment):
    needed = {name for name in closure(environment) if not WITH_TORCH.fullmatch(name)}
    assert {"torch", "numpy", "ray", "optuna", "hypothesis", "jinja2", "hatchling"} < needed  # the walk does walk
    assert needed - CONSTRAINTS.keys() == set()
    assert needed - LOCK.keys() == {"torch"}


def test_nothing_is_pinned_that_nobody_needs():
    here = {dist.name for dist in importlib.metadata.distributions()}
    if missing := {Requirement(line).name for line in PROJECT["optional-dependencies"]["dev"]} - here:
        pytest.skip(f"{missing} are not installed, so their dependencies are not known: run `make install`")
    assert CONSTRAINTS.keys() == set().union(*map(closure, ENVIRONMENTS)) & CONSTRAINTS.keys()


def test_the_lock_is_of_these_constraints():
    assert {**LOCK, "torch": CONSTRAINTS["torch"]} == CONSTRAINTS, "run `make lock`"


def test_every_locked_package_has_hashes_and_no_address():
    entries = re.split(r"\n(?=[A-Za-z0-9])", LOCK_TEXT.strip())
    entries = [entry for entry in entries if not entry.startswith("#")]
    assert len(entries) == sum(map(len, LOCK.values()))
    for entry in entries:
        assert len(re.findall(r"--hash=sha256:[0-9a-f]{64}\b", entry)) >= 1, entry
    assert "://" not in LOCK_TEXT


def test_pinned_versions_satisfy_what_the_project_asks_for():
    extras = PROJECT["optional-dependencies"]
    for line in [*PROJECT["dependencies"], *(line for lines in extras.values() for line in lines)]:
        requirement = Requirement(line)
        if requirement.name != "modeseek":
            versions = CONSTRAINTS[canonical(requirement.name)].values()
            assert all(version in requirement.specifier for version in versions), line
