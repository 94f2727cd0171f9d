"""The page in a real browser: nothing wider than the screen, nothing fetched, and each theme in its own colours."""

from collections.abc import Iterator
from typing import Any

import pytest
from browser import open_browser, requested_addresses
from comparison_results import make_results
from greffe.train.comparison.palette import COLOURS
from greffe.train.comparison.report import write_report


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    """With what makes pages wide: a word without an end, many budgets, long labels."""
    budgets = ("50", "100", "200", "400", "all")
    accuracy = {
        method: dict.fromkeys(budgets, 0.6 + 0.05 * place)
        for place, method in enumerate(("majority", "tfidf", "scratch", "frozen", "pretrained"))
    }
    labels = ("a label of many words and more of them", "Donaudampfschifffahrtsgesellschaftskapitän")
    results = make_results(budgets=budgets, accuracy=accuracy, seeds=2, rows=200, labels=labels)
    results["test"]["texts"] = [f"{'endless' * 60} {text}" for text in results["test"]["texts"]]
    results["settings"]["keep_overlap"] = True
    folder = tmp_path_factory.mktemp("report")
    write_report(results, folder)
    return (folder / "report.html").as_uri()


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with open_browser(tmp_path_factory.mktemp("browser")) as driver:
        yield driver


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_it_fits_and_fetches_nothing(page: str, driver: Any, width: int, theme: str) -> None:
    metrics = {"width": width, "height": 844, "deviceScaleFactor": 1, "mobile": width < 500}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    feature = {"name": "prefers-color-scheme", "value": theme}
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
    requested_addresses(driver)
    driver.get(page)
    assert requested_addresses(driver) == [page]
    sizes = "const root = document.documentElement; return [root.scrollWidth, root.clientWidth, window.innerWidth]"
    scroll, client, inner = driver.execute_script(sizes)
    assert scroll <= client <= inner == width  # the client's less a scroll bar, where there is one
    colour = driver.execute_script("return getComputedStyle(document.body).backgroundColor")
    paper = COLOURS["paper"][theme == "dark"]
    assert colour == f"rgb({', '.join(str(int(paper[place : place + 2], 16)) for place in (1, 3, 5))})"
    widest = driver.execute_script("return Math.max(...[...document.querySelectorAll('svg')].map(e => e.clientWidth))")
    assert 300 < widest <= width
    assert driver.get_log("browser") == []
