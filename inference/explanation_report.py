"""An explanation for people to see: coloured text in a terminal, and a page."""

from __future__ import annotations

import html

from .evaluation_report import shorten
from .explanation import Explanation
from .terminal import harmless

# Backgrounds of a terminal with 256 colours, from weak to strong: for the label in blue, against it in orange.
_FOR, _AGAINST = (153, 111, 69, 33), (223, 216, 209, 202)
_RESET = "\x1b[0m"
_TOP = 10

# Colours with an opacity lie over any background, so that the page needs no others for the dark.
_STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.6 system-ui, sans-serif; max-width: 46rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; } td { padding: .1rem 1rem .1rem 0; } td:last-child { text-align: right; }
""".strip()
_FRAGMENT_STYLE = """
.greffe-text { white-space: pre-wrap; overflow-wrap: anywhere; }
.greffe-text span { border-radius: .2em; padding: .05em 0; }
.greffe-text .unseen { opacity: .55; }
""".strip()


def format_explanation(explanation: Explanation, colour: bool) -> str:
    """The decision, the text with the weight of its parts in colours if wanted, and the parts that weigh most."""
    lines = [describe_decision(explanation), ""]
    if colour:
        strongest = _strongest(explanation)
        lines += ["".join(_paint(part.text, part.score, strongest) for part in explanation.parts), ""]
    lines += [f"{part.score or 0:+.3f}  {shorten(repr(part.text))}" for part in explanation.top(_TOP)]
    return "\n".join(lines)


def describe_decision(explanation: Explanation) -> str:
    prediction = explanation.prediction
    method = explanation.method.replace("_", " ")
    if prediction.value is not None:
        return f"{explanation.label}: {prediction.value:.4g} ({method})"
    return f"{explanation.label}: {prediction.probabilities[explanation.label]:.3f} ({method}, in log-odds)"


def _strongest(explanation: Explanation) -> float:
    return max((abs(part.score or 0) for part in explanation.parts), default=0) or 1.0


def _paint(text: str, score: float | None, strongest: float) -> str:
    text = harmless(text)
    if score is None:
        return f"\x1b[2m{text}{_RESET}"
    level = int(abs(score) / strongest * 5)
    if level == 0:
        return text
    colour = (_FOR if score > 0 else _AGAINST)[level - 1 if level < 5 else 3]
    # Each line for itself: a terminal would fill the rest of it with the background.
    return "\n".join(f"\x1b[30;48;5;{colour}m{line}{_RESET}" if line else "" for line in text.split("\n"))


def explanation_fragment(explanation: Explanation) -> str:
    """The coloured text as a piece of HTML for any page, with its style."""
    strongest = _strongest(explanation)
    spans = []
    for part in explanation.parts:
        text = html.escape(part.text)
        if part.score is None:
            spans.append(f'<span class="unseen" title="not seen by the model">{text}</span>')
            continue
        colour = "38 120 255" if part.score > 0 else "255 110 30"
        strength = 0.75 * abs(part.score) / strongest
        spans.append(f'<span title="{part.score:+.3f}" style="background:rgb({colour} / {strength:.2f})">{text}</span>')
    return f'<style>{_FRAGMENT_STYLE}</style>\n<div class="greffe-text">{"".join(spans)}</div>'


def explanation_page(explanation: Explanation) -> str:
    """A page that needs nothing but itself."""
    decision = html.escape(describe_decision(explanation))
    shares = "".join(
        f"<tr><td>{html.escape(name)}</td><td>{share:.3f}</td></tr>"
        for name, share in explanation.prediction.top(len(explanation.prediction.probabilities))
    )
    weights = "".join(
        f"<tr><td>{html.escape(repr(part.text))}</td><td>{part.score or 0:+.3f}</td></tr>"
        for part in explanation.top(_TOP)
    )
    return f"""<!doctype html>
<html>
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{decision}</title>
<style>
{_STYLE}
</style>
</head>
<body>
<h1>{decision}</h1>
{explanation_fragment(explanation)}
<p>Blue speaks for the label, orange against it; what the model did not see is pale.</p>
<table>{weights}</table>
<p></p>
<table>{shares}</table>
</body>
</html>
"""


__all__ = ["describe_decision", "explanation_fragment", "explanation_page", "format_explanation"]
