"""The colours and line styles of the figures, once for paper and once for each theme of the page.

The hues are near Okabe and Ito's, lighter or darker where that keeps any two methods apart for the colour-blind of each
kind. Methods differ in marker and dashes too, for prints in grey. A figure is drawn in the colours of paper, each of
which stands for one role and no other: in the page they become CSS variables, and the theme decides.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

# Role: on paper and in the light theme, in the dark theme.
COLOURS = {
    "paper": ("#ffffff", "#15181d"),
    "ink": ("#1d2330", "#e6e9ee"),
    "soft": ("#5b6472", "#a3acba"),
    "line": ("#dde1e8", "#323944"),
    # Of cells that are filled more or less, and of the words in full ones: both themes change over at the same share.
    "fill": ("#004f80", "#4fa3d9"),
    "on-fill": ("#fefefe", "#0f1216"),
    "pretrained": ("#0072b2", "#5ab7ec"),
    "scratch": ("#d55e00", "#f5873f"),
    "frozen": ("#006838", "#48e0a0"),
    "tfidf": ("#ad4d85", "#e79ac6"),
    "majority": ("#4a4f59", "#7d8695"),
}
PAPER = {role: light for role, (light, _) in COLOURS.items()}

FONT_SIZE = 10.5
WIDTH = 4.8  # inches; at about one to one on a phone, so that the type stays readable there


@dataclass(frozen=True)
class LineStyle:
    colour: str
    dashes: Any
    marker: str


_LINES = {
    "pretrained": LineStyle(PAPER["pretrained"], "-", "o"),
    "scratch": LineStyle(PAPER["scratch"], (0, (5, 1.6)), "s"),
    "frozen": LineStyle(PAPER["frozen"], (0, (6, 1.6, 1.2, 1.6)), "^"),
    "tfidf": LineStyle(PAPER["tfidf"], (0, (1.3, 1.3)), "D"),
    "majority": LineStyle(PAPER["majority"], (0, (1, 2.6)), "v"),
}

# What differs from matplotlib's own settings. Text stays text in SVG, and no `$` in a label starts a formula.
SETTINGS: dict[Any, Any] = {
    "axes.axisbelow": True,
    "axes.edgecolor": PAPER["soft"],
    "axes.facecolor": "none",
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.labelcolor": PAPER["soft"],
    "axes.linewidth": 0.8,
    "axes.spines.left": False,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlecolor": PAPER["ink"],
    "axes.titlelocation": "left",
    "axes.titlesize": FONT_SIZE,
    "axes.titleweight": "bold",
    "axes.unicode_minus": True,
    "figure.facecolor": PAPER["paper"],
    "font.family": "DejaVu Sans",
    "font.size": FONT_SIZE,
    "grid.color": PAPER["line"],
    "grid.linewidth": 0.8,
    "lines.linewidth": 2.0,
    "lines.markersize": 4.5,
    "savefig.facecolor": PAPER["paper"],
    "svg.fonttype": "none",
    "svg.hashsalt": "greffe",
    "text.color": PAPER["ink"],
    "text.parse_math": False,
    "xtick.color": PAPER["soft"],
    "xtick.major.size": 3,
    "xtick.minor.size": 0,
    "ytick.color": PAPER["soft"],
    "ytick.major.size": 0,
}


def line_style(method: str) -> LineStyle:
    return _LINES.get(method, _LINES["majority"])


def css_variables(dark: bool) -> str:
    """The colours of a theme as custom properties."""
    return " ".join(f"--{role}: {pair[dark]};" for role, pair in COLOURS.items())


__all__ = ["COLOURS", "FONT_SIZE", "PAPER", "SETTINGS", "WIDTH", "css_variables", "line_style"]
