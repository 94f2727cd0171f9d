"""The Markdown: tables that are tables, and text from outside that is text."""

import re

from comparison_results import make_results
from greffe.train.comparison.figures import Drawing
from greffe.train.comparison.markdown import escape_markdown, make_markdown
from greffe.train.comparison.statistics import compute_statistics
from greffe.train.comparison.verdict import judge
from markdown_it import MarkdownIt

HOSTILE = "a|b <script>alert(1)</script> [x](http://example.org) `c` *d* _e_ ![](f.png)\n# g"


def render(results, drawings) -> str:
    statistics = compute_statistics(results)
    return make_markdown(results, statistics, judge(results, statistics), drawings)


def test_verdict_tables_and_figures():
    results = make_results()
    names = ("accuracy-by-epoch", "differences", "confusion-scratch", "confusion-tfidf")
    text = render(results, [Drawing(name, name[:9], "How to read it.", "What it shows.", b"", "") for name in names])
    verdict = judge(results, compute_statistics(results))
    assert text.startswith(f"# How much does pre-training help?\n\n**{verdict.headline}**\n")
    page = MarkdownIt("commonmark").enable("table").render(text)
    images = re.findall(r'<img src="(.*?)" alt="(.*?)"', page)
    assert images == [(f"figures/{name}.png", "What it shows.") for name in names]
    assert page.count("<h2>confusion</h2>") == 1  # for both
    assert page.count("<table>") == 9
    row = re.search(r"<td>pre-trained</td>(?:\s*<td[^>]*>\d\d\.\d ± \d\.\d %</td>){3}", page)
    assert row, page[:3000]
    assert "45 rows of train and 10 rows of validation" in page
    assert "train in test          41" in page


def test_text_from_outside_is_text():
    results = make_results(labels=[HOSTILE, "pos"], seeds=1, budgets=["all"])
    results["data"]["train"]["file"] = results["settings"]["text_column"] = HOSTILE
    results["data"]["overlap"]["description"] = [HOSTILE]
    drawings = [Drawing("confusion", "Title", "How to read it.", HOSTILE, b"", "")]
    page = MarkdownIt("commonmark").enable("table").render(render(results, drawings))
    assert "<script>" not in page
    assert not re.search(r"<a |<em>|<img src=\"f\.|<code>c</code>|<h1>g", page)
    assert page.count("<img") == 1
    cells = [re.sub("<[^>]*>", "", cell) for cell in re.findall(r"<td>.*?</td>", page)]
    assert any(
        cell.startswith("a|b &lt;script&gt;alert(1)&lt;/script&gt; [x](http://example.org) `c`") for cell in cells
    )


def test_escaped_text_comes_back():
    page = MarkdownIt("commonmark").render(escape_markdown("5 < 6 & \\*x* | _y_ #1 $2$ ~z~"))
    assert page == "<p>5 &lt; 6 &amp; \\*x* | _y_ #1 $2$ ~z~</p>\n"
