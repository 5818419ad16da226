"""The plan of the house: who imports whom, what the core needs, and that no test draws without a seed."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import modeseek

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "modeseek"
MODULES = sorted(path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py"))

OUTER = {"bench", "commands", "integrations"}
CLOSED = {"core": OUTER, "bench": {"commands"}, "integrations": {"bench", "commands"}, "commands": set()}

# threadpoolctl is a dependency of botorch.
NEEDED = {"botorch", "filelock", "gpytorch", "numpy", "safetensors", "scipy", "threadpoolctl", "torch", "tqdm"}
OPTIONAL = {"IPython", "cloudpickle", "matplotlib", "pandas"}
HEAVY = ["ax", "botorch", "matplotlib", "optuna", "pandas", "plotly", "pyarrow", "ray", "scipy", "sklearn", "torch"]

DRAWS = {"bernoulli", "multinomial", "normal", "poisson", "rand", "rand_like", "randint", "randn", "randn_like"}
DRAWS |= {"randperm", "normal_", "uniform_", "random_", "exponential_", "bernoulli_"}
LEGACY = {"choice", "choices", "gauss", "randint", "random", "randrange", "sample", "uniform"}  # of `random`
SEEDED = {"default_rng", "Generator", "SeedSequence", "PCG64"}  # of numpy.random; all else is the legacy generator


def room(module: str) -> str:
    first = Path(module).parts[0]
    return first if first in OUTER else "core"


def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), str(path))


def imported(node: ast.AST) -> list[str]:
    """The full names of what an import names."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        assert node.level == 0, f"line {node.lineno}: import it by its full name"
        return [f"{node.module}.{alias.name}" for alias in node.names]
    return []


@pytest.mark.parametrize("module", [module for module in MODULES if module != "__main__.py"])
def test_imports_point_inwards(module: str) -> None:
    """Also those within functions and for type checkers. `__main__.py` is a door of the commands."""
    used = {name.split(".")[1] for node in ast.walk(parse(PACKAGE / module)) for name in imported(node) if own(name)}
    assert used & CLOSED[room(module)] == set()


def own(name: str) -> bool:
    return name.startswith("modeseek.")


class Needs(ast.NodeVisitor):
    """Packages that a module needs when it is run, and those that it does without where they are missing."""

    def __init__(self) -> None:
        self.needed: set[str] = set()
        self.optional: set[str] = set()
        self._functions = self._guards = 0

    def visit_If(self, node: ast.If) -> None:
        if ast.unparse(node.test) != "TYPE_CHECKING":
            self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._functions += 1
        self.generic_visit(node)
        self._functions -= 1

    def visit_Try(self, node: ast.Try) -> None:
        guards = any(handler.type and ast.unparse(handler.type) == "ImportError" for handler in node.handlers)
        self._guards += guards
        self.generic_visit(node)
        self._guards -= guards

    def visit_Import(self, node: ast.Import | ast.ImportFrom) -> None:
        names = {name.split(".")[0] for name in imported(node)} - sys.stdlib_module_names - {"modeseek"}
        if self._functions and self._guards:
            self.optional |= names
        else:
            self.needed |= names

    visit_ImportFrom = visit_Import


@pytest.mark.parametrize("module", [module for module in MODULES if room(module) == "core"])
def test_the_core_needs_little(module: str) -> None:
    needs = Needs()
    needs.visit(parse(PACKAGE / module))
    assert needs.needed <= NEEDED
    assert needs.optional <= OPTIONAL


def test_what_workers_and_help_need_is_loaded_without_torch_and_extras() -> None:
    """A worker process imports the script, with `minimize` in it, and what evaluates; `--help` needs the commands."""
    script = (
        "import sys, modeseek.commands, modeseek.execution.evaluations\n"
        "from modeseek import DMSConfig, Space, Trial, WhenSure, maximize, minimize\n"
        f"print([name for name in {HEAVY} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.strip() == "[]"


def test_public_names_are_there_though_some_are_loaded_on_demand() -> None:
    assert [name for name in modeseek.__all__ if not hasattr(modeseek, name)] == []
    assert set(modeseek.__all__) <= set(dir(modeseek))
    with pytest.raises(AttributeError, match="no attribute 'Optimiser'"):
        _ = modeseek.Optimiser


def is_unseeded(call: ast.Call) -> bool:
    """A draw from a global generator, or from one that has a seed of its own every time."""
    if not isinstance(call.func, ast.Attribute):
        return False
    where, name = ast.unparse(call.func.value), call.func.attr
    named = {keyword.arg for keyword in call.keywords}
    if where in ("np.random", "numpy.random"):
        return name not in SEEDED or (name == "default_rng" and not call.args and "seed" not in named)
    if where == "random":
        return name in LEGACY
    return (where == "torch" or name.endswith("_")) and name in DRAWS and "generator" not in named


def unseeded(path: Path) -> list[int]:
    """Lines with such draws, but for functions that seed the global generator, as others' code wants it."""
    seeds = ("torch.manual_seed", "np.random.seed")
    tree = parse(path)
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    fair = {
        id(node)
        for function in functions
        if any(isinstance(node, ast.Call) and ast.unparse(node.func) in seeds for node in ast.walk(function))
        for node in ast.walk(function)
    }
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and id(node) not in fair]
    return [call.lineno for call in calls if is_unseeded(call)]


@pytest.mark.parametrize("folder", ["tests", "benchmarks", "studies", "examples"])
def test_no_draw_is_without_a_seed(folder: str) -> None:
    found = {path.relative_to(ROOT).as_posix(): unseeded(path) for path in sorted((ROOT / folder).rglob("*.py"))}
    assert {path: lines for path, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("torch.rand(3)", True),
        ("torch.rand(3, generator=g)", False),
        ("x.normal_()", True),
        ("np.random.rand(3)", True),
        ("np.random.default_rng()", True),
        ("np.random.default_rng(0)", False),
        ("random.random()", True),
        ("rng.normal(3)", False),
        ("def f():\n    torch.manual_seed(0)\n    torch.rand(3)", False),
    ],
)
def test_unseeded_draws_are_seen(tmp_path: Path, text: str, is_one: bool) -> None:
    path = tmp_path / "some.py"
    path.write_text(text)
    assert bool(unseeded(path)) == is_one
