"""Rank-1, rank-5 and other ranks over the epochs of a training, as a figure for papers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roadworthy.probe.epochs import EpochRanks

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# colour, dash and marker: told apart without colour too
_STYLES = (("#0072b2", "-", "o"), ("#c44e00", "--", "s"), ("#1a6b3f", ":", "D"), ("#8a4b9c", "-.", "^"))
_WIDTH = 72  # characters of the sentence in a line


def rank_epochs_figure(ranks: EpochRanks) -> Figure:
    """Draw the share of samples whose class is among the k first, by epoch, with what the curves say.

    Args:
        ranks: from :meth:`EpochRanks.of` or :func:`roadworthy.probe.read_epochs`.

    Returns:
        A matplotlib figure; the window that trends are taken over is shaded.
    """
    import textwrap

    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    figure = Figure(figsize=(5.6, 4.0), layout="constrained")
    axes = figure.subplots()
    if ranks.trends:
        axes.axvspan(*ranks.window, color="#eeeeee", zorder=0)
    for place, k in enumerate(ranks.k):
        colour, dash, marker = _STYLES[place % len(_STYLES)]
        axes.plot(
            ranks.epochs,
            ranks.accuracy[:, place],
            dash,
            color=colour,
            marker=marker,
            markersize=3.5,
            linewidth=1.4,
            label=f"rank-{k}",
        )
    axes.set(xlabel="epoch", ylabel="share of samples", ylim=(-0.02, 1.02))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(color="#dddddd", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=8)
    axes.legend(fontsize=8, frameon=False, loc="lower right")
    figure.suptitle("\n".join(textwrap.wrap(ranks.sentence, _WIDTH)), fontsize=8, x=0.02, ha="left")
    return figure
