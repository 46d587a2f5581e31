"""The shape of the code: what may import what, what the core may not touch, how long functions may be."""

import ast
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from functools import cache
from itertools import pairwise
from pathlib import Path

from grimp import build_graph

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "reconciler"
MODULES = sorted(PACKAGE.rglob("*.py"))
OUTSIDE = (
    "__main__.py",
    "clock.py",
    "http.py",
    "messages.py",
    "packages.py",
    "processes.py",
    "resources.py",
    "cli",
    "console",
    "controller",
    "download",
    "forge/client.py",
    "forge/opening.py",
    "health/agent",
    "health/measuring",
    "health/node.py",
    "health/repairing.py",
    "health/rounds.py",
    "html/page.py",
    "index/cache.py",
    "index/limited.py",
    "index/workers.py",
    "kube/client",
    "live/apply",
    "live/opening.py",
    "nodehealth/readers",
    "plan/decisions.py",
    "plan/opening.py",
    "policy/plugins.py",
    "repo",
    "size/opening.py",
    "sizing/engines",
    "submit/folder.py",
    "submit/init.py",
    "submit/live",
    "submit/submit.py",
    "submit/template_child.py",
    "submit/templates.py",
    "submit/user.py",
    "web",
)
"""Folders and modules that touch files, processes, clocks or the network; and every `commands`. All others are pure."""
PURE = [
    path
    for path in MODULES
    if not path.relative_to(PACKAGE).as_posix().startswith(OUTSIDE)
    and "commands" not in path.relative_to(PACKAGE).with_suffix("").parts
]
FORBIDDEN_IMPORTS = {
    *("git", "kubernetes", "pynvml", "urllib3", "subprocess", "socket", "os", "sys", "pathlib"),
    *("time", "random", "logging", "threading", "signal", "shutil", "tempfile"),
}
FORBIDDEN_CALLS = {"open", "print", "input", "exec", "eval"}
FORBIDDEN_METHODS = {"read_text", "read_bytes", "write_text", "write_bytes", "iterdir", "glob", "unlink"}
_MAX_LINES = 50
DRAWERS = re.compile(r"(^|_)(utils?|helpers?|common|manager|base|misc|stuff|data|info)$")


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@cache
def _imports(tree: ast.AST) -> frozenset[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module.split(".")[0])
    return frozenset(names)


@cache
def _calls(tree: ast.AST) -> frozenset[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            function = node.func
            names.add(function.id if isinstance(function, ast.Name) else f".{getattr(function, 'attr', '')}")
    return frozenset(names & (FORBIDDEN_CALLS | {f".{name}" for name in FORBIDDEN_METHODS}))


# Expressions of policies become functions of Python (ADR 11).
_MAY_EXECUTE = {"kube/cel/translation/code.py"}
# The files of frameworks are parts of the package, which are read once, as its modules are.
_MAY_READ = {"launch/frameworks/__init__.py"}


def _offenders(paths: Iterable[Path], is_wrong: Callable[[Path, ast.Module], object]) -> list[str]:
    """Return the modules of the package that a rule rejects."""
    return [path.relative_to(PACKAGE).as_posix() for path in paths if is_wrong(path, _tree(path))]


def test_decisions_are_pure() -> None:
    """No clock, chance, network, process, file or printing outside of the modules that are listed."""
    assert len(PURE) > len(MODULES) / 2
    assert _offenders(PURE, lambda _, tree: _imports(tree) & FORBIDDEN_IMPORTS) == []
    assert _offenders(PURE, lambda _, tree: _calls(tree) - {"exec"}) == sorted(_MAY_READ)
    assert _offenders(PURE, lambda _, tree: "exec" in _calls(tree)) == [*_MAY_EXECUTE]


# `__main__` decides; the others run in child processes of their own, or start them, and a shell in a pod follows the
# size of the terminal while it lasts.
_SET_UP = {
    *("__main__.py", "index/limited.py", "index/workers.py", "processes.py", "repo/git/command.py"),
    "submit/live/sessions.py",
}


def test_only_main_sets_up_the_process() -> None:
    """Garbage collection, signals and exit hooks: `__main__` alone decides on them."""
    assert {*_offenders(MODULES, lambda _, tree: _imports(tree) & {"gc", "signal", "atexit"})} <= _SET_UP


def test_modules_are_described_and_named() -> None:
    """A docstring that says what goes in and out, and no drawer for everything."""
    assert _offenders(MODULES, lambda _, tree: not ast.get_docstring(tree)) == []
    assert _offenders(MODULES, lambda path, _: DRAWERS.search(path.stem)) == [], "name the noun instead"


def _classes(trees: Iterable[ast.AST]) -> Counter[str]:
    """Count the classes by name, without leading underscores."""
    return Counter(node.name.strip("_") for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef))


def test_no_class_name_has_two_meanings() -> None:
    """A reader who searches for a class finds one."""
    counts = _classes(map(_tree, MODULES))
    assert [name for name, count in counts.items() if count > 1] == []


def _long_functions(tree: ast.AST) -> list[str]:
    """Return the functions of more than 50 lines."""
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return [node.name for node in functions if (node.end_lineno or 0) - node.lineno >= _MAX_LINES]


def test_no_function_is_long() -> None:
    """A function fits on a screen."""
    assert _offenders(MODULES, lambda _, tree: _long_functions(tree)) == []


def _circles(imports: Mapping[str, AbstractSet[str]]) -> list[str]:
    """Return the modules that import themselves through others."""

    def reachable(start: str) -> set[str]:
        reached: set[str] = set()
        ahead = [*imports.get(start, ())]
        while ahead:
            if (name := ahead.pop()) not in reached:
                reached.add(name)
                ahead += imports.get(name, ())
        return reached

    return sorted(name for name in imports if name in reachable(name))


def test_no_module_imports_itself_through_others() -> None:
    """No import circle, also where an import is only for types or inside a function."""
    graph = build_graph("reconciler", include_external_packages=False, cache_dir=None)
    imports = {name: graph.find_modules_directly_imported_by(name) for name in graph.modules}
    assert len(imports) > 200
    assert _circles(imports) == []


def test_the_checks_can_fail() -> None:
    """The checks see what they are meant to see."""
    assert _circles({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c"]
    assert _classes([ast.parse("class A: ..."), ast.parse("class _A: ...\nclass B: ...")]) == {"A": 2, "B": 1}
    assert _long_functions(ast.parse("def a():\n" + "  b()\n" * 49 + "def c():\n" + "  b()\n" * 50)) == ["c"]
    tree = ast.parse("import os\nfrom time import sleep\nopen('x')\npath.read_text()")
    assert _imports(tree) & FORBIDDEN_IMPORTS == {"os", "time"}
    assert _calls(tree) == {"open", ".read_text"}


def test_the_page_about_the_architecture_lists_the_capabilities_in_their_order() -> None:
    """From bottom to top, as the import contract has them; modules that share a line have no order."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    tree = page.partition("    reconciler/\n")[2].partition("\n    policies/")[0]
    shown = [re.split(r"\s{2,}", line.strip())[0] for line in tree.splitlines() if line[6:7].strip()]
    named = [[name.removesuffix("/").removesuffix(".py") for name in names.split()] for names in shown]
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    layers = reversed(contracts[0]["layers"])
    order = {name: rank for rank, layer in enumerate(layers) for name in layer.split(" | ")}
    assert sorted(name for names in named for name in names if name != "data") == sorted(order)
    ranks = [[order[name] for name in names] for names in named if names != ["data"]]
    assert all(max(below) < min(above) for below, above in pairwise(ranks)), shown
