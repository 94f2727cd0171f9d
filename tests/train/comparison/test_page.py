"""The page: complete, self-contained, and deaf to whatever stands in texts, labels and file names."""

import re
from html.parser import HTMLParser

import pytest
from comparison_results import METHODS, make_results, remove_runs
from greffe.train.comparison.figures import draw_figures
from greffe.train.comparison.page import make_page
from greffe.train.comparison.statistics import compute_statistics
from greffe.train.comparison.verdict import judge

HOSTILE = "<script>alert('x')</script>\"><img src=x onerror=alert(1)>&amp;"


def render(results) -> str:
    statistics = compute_statistics(results)
    return make_page(results, statistics, judge(results, statistics), draw_figures(results, statistics))


class Elements(HTMLParser):
    """Every element with its attributes, the text, and whether each element is closed."""

    def __init__(self, page: str):
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.open: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


@pytest.fixture(scope="module")
def page() -> str:
    return render(make_results(seeds=2))


def test_nothing_is_fetched_and_nothing_runs(page):
    elements = Elements(page)
    assert not elements.open
    assert not {tag for tag, _ in elements.found} & {"script", "link", "img", "iframe", "object", "a", "form"}
    for _, attributes in elements.found:
        assert not [name for name in attributes if name.startswith("on") or name == "src"]
        assert (attributes.get("href") or "#").startswith("#")
    assert not re.search(r"@import|url\((?!#)", page)
    policies = [a["content"] for tag, a in elements.found if tag == "meta" and a.get("http-equiv")]
    assert policies == ["default-src 'none'; style-src 'unsafe-inline'; form-action 'none'; base-uri 'none'"]


def test_the_verdict_comes_first(page):
    title, words = re.search(r'<main>\s*<h1>(.*?)</h1><p class="verdict">(.*?)</p>', page).groups()
    assert title == "How much does pre-training help?"
    results = make_results(seeds=2)
    verdict = judge(results, compute_statistics(results))
    assert re.sub("<[^>]*>", "", words).replace("\u00a0", " ") == verdict.headline


def test_sections_and_figures(page):
    titles = re.findall(r"<h2>(.*?)</h2>", page)
    assert titles == [
        "Accuracy after each epoch",
        "Accuracy by number of labels",
        "What pre-training adds",
        "Which classes are taken for which",
        "Test accuracy",
        "Epochs to 95 % of the best accuracy",
        "Differences",
        "Every method and budget",
        "Most confidently wrong",
        "Where the parameters are",
        "The pre-trained model",
        "Data",
        "Time",
        "Versions and machine",
        "Settings",
    ]
    assert len(re.findall(r'<svg [^>]*role="img" aria-label="[^"]{40,}"', page)) == 5
    for fact in ("1f" * 32, "0a" * 32, "train.jsonl", "45 rows of train and 10 rows of validation", "94.2", "2.13.0"):
        assert fact in page
    assert "/home/someone" not in page


def test_text_from_outside_is_text():
    results = make_results(["scratch", "pretrained"], ["all"], 2, [HOSTILE, "pos"], rows=200)
    results["test"]["texts"] = [f"{HOSTILE} {n}" for n in range(len(results["test"]["texts"]))]
    results["data"]["train"]["file"] = results["model"]["path"] = HOSTILE
    results["data"]["overlap"] = {"removed": {HOSTILE: 3}, "description": [HOSTILE]}
    results["settings"][HOSTILE] = HOSTILE
    results["versions"]["greffe"] = results["machine"]["platform"] = HOSTILE
    results["model"]["pretraining"]["corpus"] = [HOSTILE]
    results["model"]["parameters"][HOSTILE] = 5
    elements = Elements(render(results))
    assert not {tag for tag, _ in elements.found} & {"script", "img"}
    assert "".join(elements.words).count("<script>alert('x')</script>") > 20
    assert "".join(elements.words).count("&amp;") > 20  # as it was, and not once more


@pytest.mark.parametrize(
    "changes",
    [
        {"seeds": 1, "budgets": ["all"], "labels": [f"class {number}" for number in range(10)]},
        {"seeds": 2, "budgets": ["all"], "methods": ["pretrained"]},
        {"seeds": 1, "budgets": ["20"], "methods": ["majority", "tfidf"]},
    ],
    ids=str,
)
def test_other_shapes(changes):
    accuracy = {method: dict.fromkeys(changes["budgets"], 0.6 + 0.03 * rank) for rank, method in enumerate(METHODS)}
    assert not Elements(render(make_results(**changes, accuracy=accuracy))).open


def test_without_runs_or_pretraining():
    results = {**make_results(seeds=1, rows=200), "runs": []}
    results["model"] = {**results["model"], "pretraining": None}
    page = render(results)
    assert "No run is finished yet." in page
    assert "Most confidently wrong" not in page


def test_unfinished_runs_are_counted_in_the_tables():
    results = remove_runs(make_results(seeds=3), method="scratch", budget="all", seed=2)
    statistics = compute_statistics(results)
    page = make_page(results, statistics, judge(results, statistics), [])
    assert re.search(r"7\d\.\d ± \d\.\d % \(n = 2\)", page)
