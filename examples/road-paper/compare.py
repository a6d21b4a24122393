"""Set a sweep of this folder beside the figures of the ROAD paper: python examples/road-paper/compare.py RUN.

Prints the agreement of the removal orders and of retraining with no retraining, what the mask alone tells, and what
ROAD costs. The paper's figures (Rong et al., ICML 2022: sections 6.1 and 6.2, figure 5, table 4) stand beside them.
"""

from __future__ import annotations

import sys
from pathlib import Path

import roadworthy as rw
from roadworthy.evaluation import Result
from roadworthy.evaluation.concordance import concordance_of

PAPER = {
    ("mean", "retrain"): "-0.01", ("mean", "no retraining"): "0.01",
    ("noisy-linear", "retrain"): "0.61", ("noisy-linear", "no retraining"): "0.58",
    ("noisy-linear", "morf"): "0.84", ("noisy-linear", "lerf"): "0.94",
}  # fmt: skip


def main(run: Path) -> None:
    """Print the comparison of a sweep's folder."""
    road = rw.load_result(run / "road")
    without = {view["imputer"]: road.view(index) for index, view in enumerate(road.views)}
    with_training = {name: rw.load_result(run / name) for name in without if (run / name / "result.json").exists()}
    any_result = next(iter(with_training.values()))
    methods = [name for name in any_result.methods if name != "random"]  # the paper's eight
    print(f"{len(methods)} methods, shares {any_result.fractions[1:]}, {any_result.repeats} trainings of each point,")
    print(f"{any_result.n} test images, intact accuracy {any_result.intact_accuracy:.3f} (paper: 0.845)\n")
    print("agreement (mean Spearman over shares, standard error)          share kept   share removed   paper")
    for name, result in with_training.items():
        for what, one in (("retrain", result), ("no retraining", without[name])):
            cells = [agreement({what: one}, methods, pairing) for pairing in ("kept", "removed")]
            line(f"MoRF and LeRF, {name}, {what}", *cells, PAPER.get((name, what), "–"))
    for name, result in with_training.items():
        for order in ("morf", "lerf"):
            cell = agreement({"retrain": result, "road": without[name]}, methods, "removed", order)
            line(f"retrain and no retraining, {name}, {order}", cell, cell, PAPER.get((name, order), "–"))
    masks(any_result)
    cost(with_training, road)


def agreement(results: dict[str, Result], methods: list[str], pairing: str, order: str = "") -> str:
    """Return the agreement of the first two sources, of one order only where it is named."""
    found = concordance_of(results, methods=methods, pairing=pairing)
    places = [place for place, name in enumerate(found.sources) if not order or order in name.lower()]
    first, second = places[:2]
    return f"{found.spearman.value[first, second]:5.2f} ({found.spearman.se[first, second]:.2f})"


def line(what: str, kept: str, removed: str, paper: str) -> None:
    print(f"{what:<60} {kept:>13} {removed:>15} {paper:>7}")


def masks(result: Result) -> None:
    """Print what a classifier that sees the mask alone reaches, at each method's worst share."""
    rows = result.audit["leakage"]["masks"]
    print("\nwhat the mask alone tells of the class (chance 0.10; paper: almost 0.80 for ig-sg with a ResNet-18)")
    for name in dict.fromkeys(row["method"] for row in rows):
        best = max((row for row in rows if row["method"] == name), key=lambda row: row["accuracy"])
        interval = f"{best['low']:.2f} to {best['high']:.2f}"
        print(f"  {name:<8} {best['accuracy']:.2f} ({interval}) at {best['fraction']:.0%}, {best['order']}")


def cost(results: dict[str, Result], road: Result) -> None:
    """Print what asking one model costs of what retraining costs."""
    linear = results["noisy-linear"].cost
    trained = linear[linear["work"] == "retrain"]["seconds"].sum()
    asked = road.cost["seconds"].sum()
    share = f"{asked / trained:.1%} (paper: 0.7 %)"
    print(f"\ncost with noisy-linear: retraining {trained:.0f} s, without {asked:.0f} s: {share}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
