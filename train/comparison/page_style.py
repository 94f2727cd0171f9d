"""How the page looks: the style sheet of `report.html`, light and dark, from a phone to a wide screen."""

from __future__ import annotations

from .palette import css_variables

STYLE = (
    f"""
:root {{ color-scheme: light dark; {css_variables(False)} --panel: #f5f6f8; --shade: #0000001c; }}
@media (prefers-color-scheme: dark) {{ :root {{ {css_variables(True)} --panel: #1d2128; --shade: #ffffff24; }} }}
"""
    + """
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; text-size-adjust: 100%; }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 17px/1.55 system-ui, -apple-system, "Segoe UI", "Helvetica Neue", Arial, sans-serif; }
main { max-width: 68rem; margin: 0 auto; padding: 1.5rem 1.25rem 4rem; }
h1, h2, .verdict, .key dd { font-family: Charter, "Bitstream Charter", "Iowan Old Style", "Source Serif 4", Cambria,
  Georgia, serif; }
h1 { font-size: 1.05rem; font-weight: 600; font-style: italic; color: var(--soft); margin: 0;
  padding-bottom: .6rem; border-bottom: 3px solid var(--ink); }
.verdict { font-size: clamp(1.45rem, 1rem + 2.1vw, 2.3rem); line-height: 1.22; letter-spacing: -.008em;
  font-weight: 600; margin: 1.4rem 0 1rem; max-width: 32em; text-wrap: pretty; }
.notes { margin: 0 0 2rem; padding: 0; list-style: none; color: var(--soft); max-width: 46em; }
.notes li + li { margin-top: .3rem; }
.notes .warning { color: var(--ink); border-left: 4px solid var(--scratch); padding-left: .75rem; }

.key { display: grid; grid-template-columns: repeat(auto-fit, minmax(9.5rem, 1fr)); gap: 1.25rem 1.75rem;
  margin: 0 0 3rem; }
.key > div { border-top: 4px solid var(--colour, var(--line)); padding-top: .45rem; }
.key dt { font-size: .85rem; line-height: 1.3; color: var(--soft); }
.key dd { margin: 0; font-size: 1.75rem; line-height: 1.2; font-variant-numeric: lining-nums tabular-nums; }
.key dd small { font-size: .5em; color: var(--soft); font-family: system-ui, sans-serif; white-space: nowrap; }
.key dd.more { font-family: inherit; font-size: .85rem; color: var(--soft); }

.figures { columns: 2; column-gap: 3rem; }
figure { margin: 0; min-width: 0; border-top: 1px solid var(--ink); padding-top: .55rem; }
.figures figure { display: inline-block; width: 100%; break-inside: avoid; margin-bottom: 2.5rem; }
.figures + section { margin-top: .5rem; }
h2 { font-size: 1.3rem; line-height: 1.25; margin: 0; }
figcaption p, .reading { font-size: .9rem; line-height: 1.45; color: var(--soft); margin: .2rem 0 .9rem;
  max-width: 44em; }
.parts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 22rem), 1fr)); gap: 1.5rem 2rem; }
figure svg { display: block; width: 100%; max-width: 33rem; height: auto; overflow: visible; }
figure svg * { stroke-linejoin: round; stroke-linecap: butt; }
figure svg text { font-family: system-ui, -apple-system, "Segoe UI", "Helvetica Neue", Arial, sans-serif !important; }

section { border-top: 1px solid var(--ink); padding-top: .55rem; margin-top: 3rem; min-width: 0; }
.whole { white-space: nowrap; }
.pair { display: grid; grid-template-columns: repeat(2, minmax(0, 1fr)); gap: 0 3rem; }
.pair > figure { margin-top: 3rem; }
.scroll { overflow-x: auto; background:
  linear-gradient(to right, var(--paper) 40%, transparent) 0 / 2.5rem 100% no-repeat local,
  linear-gradient(to left, var(--paper) 40%, transparent) 100% / 2.5rem 100% no-repeat local,
  linear-gradient(to right, var(--shade), transparent) 0 / .7rem 100% no-repeat scroll,
  linear-gradient(to left, var(--shade), transparent) 100% / .7rem 100% no-repeat scroll; }
table { border-collapse: collapse; font-size: .92rem; line-height: 1.4; min-width: min(100%, 46rem); }
th { font-weight: 500; color: var(--soft); font-size: .82rem; text-align: left; vertical-align: bottom; }
th, td { padding: .42rem 1rem .42rem 0; border-bottom: 1px solid var(--line); }
th, td { white-space: nowrap; vertical-align: top; }
th { vertical-align: bottom; }
td.long { white-space: normal; overflow-wrap: anywhere; min-width: 12rem; }
th:last-child, td:last-child { padding-right: 0; }
.number { text-align: right; font-variant-numeric: lining-nums tabular-nums; }
tr.strong td { font-weight: 650; }
code, pre { font-family: ui-monospace, "SF Mono", Menlo, Consolas, monospace; font-size: .82em; }
td code { color: var(--soft); }
pre { background: var(--panel); padding: .75rem 1rem; overflow-x: auto; margin: 1rem 0 0; }

.wrong { list-style: none; margin: 0; padding: 0; columns: 2 24rem; column-gap: 3rem; }
.wrong li { break-inside: avoid; padding: .7rem 0 .8rem; border-bottom: 1px solid var(--line); }
.wrong blockquote { margin: 0 0 .3rem; overflow-wrap: anywhere;
  font-family: Charter, "Bitstream Charter", "Iowan Old Style", Cambria, Georgia, serif; }
.wrong p { margin: 0; font-size: .85rem; color: var(--soft); overflow-wrap: anywhere; }
.wrong b { color: var(--ink); font-weight: 600; }
footer { margin-top: 3rem; padding-top: .6rem; border-top: 3px solid var(--ink); font-size: .85rem;
  color: var(--soft); }

@media (max-width: 52rem) {
  .figures { columns: 1; }
  .pair { grid-template-columns: minmax(0, 1fr); }
  table { font-size: .86rem; } th, td { padding-right: .9rem; }
  main { padding: 1rem 1rem 3rem; }
  .key { grid-template-columns: repeat(auto-fit, minmax(8.5rem, 1fr)); gap: 1rem 1.25rem; margin-bottom: 2.25rem; }
  .key dd { font-size: 1.5rem; }
}
@media print {
  body { font-size: 11pt; } main { max-width: none; padding: 0; }
  figure, .wrong li, tr { break-inside: avoid; } .scroll, pre { overflow: visible; white-space: normal; }
}
"""
)

__all__ = ["STYLE"]
