"""What a shell offers: the names of the registries, without loading them; and the ways to start the command."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import roadworthy
from roadworthy.attribution import methods
from roadworthy.cli import complete
from roadworthy.data import sources
from roadworthy.evaluation import presets
from roadworthy.imputation import imputers
from roadworthy.labelfree.corruptions import corruptions
from roadworthy.labelfree.perturbation import perturbations
from roadworthy.model import models, recipes

REGISTRIES = {
    "DATA_SETS": (complete.DATA_SETS, sources),
    "MODELS": (complete.MODELS, models),
    "METHODS": (complete.METHODS, methods),
    "IMPUTERS": (complete.IMPUTERS, imputers),
    "STRATEGIES": (complete.STRATEGIES + complete.TRAINING_STRATEGIES, presets),
    "RECIPES": (complete.RECIPES, recipes),
    "PERTURBATIONS": (complete.PERTURBATIONS, perturbations),
    "CORRUPTIONS": (complete.CORRUPTIONS, corruptions),
}


@pytest.mark.parametrize("name", REGISTRIES)
def test_the_lists_are_those_of_the_registries(name: str) -> None:
    offered, registry = REGISTRIES[name]
    assert sorted(entry.rstrip(":") for entry in offered) == sorted(set(registry) - {"package.module:factory"})


def test_presets_are_offered_where_they_can_be_named() -> None:
    trained = {name for name in presets if presets[name].training == "retrain"}
    assert set(complete.TRAINING_STRATEGIES) == trained


def offered(line: str) -> list[str]:
    """Ask as bash does, with the cursor at the end of the line."""
    words = line.split(" ")
    asked = {"COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1), "_ROADWORTHY_COMPLETE": "complete_bash"}
    command = [sys.executable, "-c", "from roadworthy.cli import main; main([])"]
    done = subprocess.run(command, env=os.environ | asked, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("roadworthy do", ["doctor"]),
        ("roadworthy road --methods ig,gra", [f"ig,{n}" for n in ("grad", "grad-sg", "grad-sq", "grad-var", "gradcam",
                                                                  "gradient-shap")]),
        ("roadworthy roar --strategy ", ["kar", "roar", "roar-2019"]),
        ("roadworthy labelfree --perturbation gaussian+rot", ["gaussian+rotation"]),
    ],
)  # fmt: skip
def test_a_shell_is_answered(line: str, wanted: list[str]) -> None:
    assert offered(line) == wanted


def test_the_command_line_loads_nothing_heavy() -> None:
    code = "import sys, roadworthy.cli.app; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {"torch", "numpy", "pandas", "numba"} & set(done.stdout.split()) == set()


def test_it_starts_as_a_module() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "roadworthy", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"roadworthy {roadworthy.__version__}\n"


def test_completion_can_be_installed() -> None:
    # --show-completion asks which shell started it; under a test runner there may be none
    asked = os.environ | {"_ROADWORTHY_COMPLETE": "source_bash"}
    command = [sys.executable, "-m", "roadworthy"]
    done = subprocess.run(command, env=asked, capture_output=True, text=True, check=True)
    assert "complete -o default -F _roadworthy_completion roadworthy" in done.stdout
