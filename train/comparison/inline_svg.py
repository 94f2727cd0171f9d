"""A figure's SVG as a part of a page: its colours follow the theme, its names do not meet those of other figures."""

from __future__ import annotations

import re
from html import escape

from .palette import COLOURS

_NOT_FOR_PAGES = re.compile(
    r"<metadata>.*?</metadata>|<defs>\s*<style[^>]*>.*?</style>\s*</defs>|<!--.*?-->", re.DOTALL
)


def inline_svg(svg: str, name: str, description: str) -> str:
    """The `<svg>` element of what matplotlib wrote: scalable, described for those who do not see it."""
    element = _NOT_FOR_PAGES.sub("", svg[svg.index("<svg") :])
    head, rest = element.split(">", 1)
    view = re.search(r'viewBox="([^"]+)"', head)
    if view is None:
        raise ValueError(f"expected a viewBox in the SVG of {name}, found {head[:200]!r}")
    # Only attributes and styles are touched: what stands between tags is text, perhaps of somebody's labels.
    rest = re.sub(r"<[^>]*>", lambda tag: _adapt(tag[0], name), rest)
    label = escape(description, quote=True)
    return f'<svg viewBox="{view[1]}" role="img" aria-label="{label}">{rest.strip()}'


def _adapt(tag: str, name: str) -> str:
    tag = re.sub(r'\bid="', f'id="{name}-', tag)
    tag = re.sub(r'\b(xlink:href|href)="#', f'href="#{name}-', tag)
    tag = tag.replace("url(#", f"url(#{name}-")
    for role, (colour, _) in COLOURS.items():
        tag = tag.replace(colour, f"var(--{role})")
    return tag


__all__ = ["inline_svg"]
