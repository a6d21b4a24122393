"""How a label-free result shows itself in a notebook: the verdict, the estimators and the gates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from roadworthy.markup import bullets, card, escape, grid, number, paragraph

if TYPE_CHECKING:
    from roadworthy.labelfree.result import LabelFree

_SHOWN = 12  # sentences


def card_of(result: LabelFree) -> str:
    """Return the result as HTML for a notebook: no scripts, in the colours around it, all text escaped.

    Args:
        result: what was found.
    """
    return card(
        f"Label-free: {result.n:,} sample{'' if result.n == 1 else 's'} without labels",
        [
            *(paragraph(text) for text in result.verdict[:_SHOWN]),
            _estimates(result),
            _gates(result.record["gates"]),
            bullets("Notes", result.warnings),
            paragraph(
                'More: rw.report(result, "report.html") writes the page; result.estimates, result.gates and '
                "result.per_sample are DataFrames.",
                quiet=True,
            ),
        ],
    )


def _estimates(result: LabelFree) -> str:
    found = result.record["estimates"]
    if not found:
        return ""
    rows = [
        [
            escape(row["estimator"]),
            *(number(row[key]) for key in ("accuracy", "mae", "bias", "worst")),
            "yes" if row["chosen"] else "",
            escape(row["note"]),
        ]
        for row in found
    ]
    return grid(
        "Each estimator's accuracy on these samples; mae, bias and worst are its errors on shifts that were made of "
        "the labelled samples.",
        ["estimator", "accuracy", "mae", "bias", "worst", "chosen", "note"],
        rows,
    )


def _gates(found: list[dict[str, Any]]) -> str:
    if not found:
        return ""
    rows = [
        [escape(gate["name"]), escape(gate["status"]), number(gate["value"]), escape(gate["why"])] for gate in found
    ]
    return grid(
        "Gates: what was looked for before the estimate is believed.", ["gate", "status", "value", "why"], rows
    )
