"""The page in a real browser: type, click, upload, read the result; and who may see it."""

import csv
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browser import open_browser, requested_addresses
from greffe.inference import load_classifier, load_language_model
from model_server import ModelServer, make_texts, save_classifier, save_language_model, serving

TOKEN = "a-token-for-tests"
BEARER = {"Authorization": f"Bearer {TOKEN}"}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    save_classifier(folder / "reviews")
    save_classifier(folder / "older", seed=3)
    save_language_model(folder / "writer")
    save_language_model(folder / "other", seed=1)
    return folder


@pytest.fixture(scope="module")
def classifier_server(models: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModelServer]:
    options = ["--compare", models / "older", "--token", TOKEN, "--max_rows", "300", "--max_upload", "100000"]
    with serving(models / "reviews", *options, cwd=tmp_path_factory.mktemp("server")) as server:
        yield server


@pytest.fixture(scope="module")
def writer_server(models: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModelServer]:
    options = ["--compare", models / "other", "--max_new_tokens", "1000000"]
    with serving(models / "writer", *options, cwd=tmp_path_factory.mktemp("server")) as server:
        yield server


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator["Browser"]:
    with open_browser(tmp_path_factory.mktemp("browser")) as driver:
        yield Browser(driver)


class Browser:
    def __init__(self, driver: Any):
        self.driver = driver

    def find(self, selector: str) -> Any:
        """The first shown element, waited for."""
        return self.wait(lambda: next((e for e in self._all(selector) if e.is_displayed()), None), selector)

    def read(self, selector: str) -> str:
        shown = [element.text for element in self._all(selector) if element.is_displayed()]
        return shown[0] if shown else ""

    def wait(self, condition: Any, what: str, seconds: float = 60) -> Any:
        from selenium.common.exceptions import StaleElementReferenceException

        end = time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                if found := condition():
                    return found
            except StaleElementReferenceException:  # drawn anew meanwhile
                pass
            time.sleep(0.05)
        raise AssertionError(f"waited for {what}, found {self.driver.find_element('tag name', 'body').text[:2000]}")

    def type(self, elem_id: str, text: str) -> None:
        box = self.find(f"#{elem_id} textarea")
        box.clear()
        box.send_keys(text)

    def click(self, elem_id: str) -> None:
        self.find(f"#{elem_id}").click()

    def open_tab(self, name: str) -> None:
        self.wait(lambda: next((e for e in self._all("button[role=tab]") if e.text == name), None), name).click()

    def _all(self, selector: str) -> list[Any]:
        return self.driver.find_elements("css selector", selector)


def bars(browser: Browser, elem_id: str) -> dict[str, str]:
    return {
        bar.find_element("css selector", "b").text: bar.find_element("css selector", "span").text
        for bar in browser._all(f"#{elem_id} .greffe-bar")
    }


@pytest.fixture
def page(browser: Browser, classifier_server: ModelServer) -> Browser:
    """The page of the classifier, past the token."""
    browser.driver.get(classifier_server.address)
    if browser._all("input[name=token]"):
        browser.find("input[name=token]").send_keys(TOKEN + "\n")
    browser.find("#try-text textarea")
    return browser


def test_the_token_opens_the_page(browser: Browser, classifier_server: ModelServer) -> None:
    browser.driver.delete_all_cookies()
    browser.driver.get(classifier_server.address)
    browser.find("input[name=token]").send_keys("wrong\n")
    browser.wait(lambda: "not the token" in browser.read("form"), "a refusal")
    browser.find("input[name=token]").send_keys(TOKEN + "\n")
    browser.find("#try-text textarea")
    assert browser.driver.execute_script("return document.cookie") == "", "scripts cannot read the cookie"


def test_the_token_protects_everything_but_health(classifier_server: ModelServer) -> None:
    ask = classifier_server.ask
    assert ask("/health").status == 200
    for path in ("/", "/openapi.json", "/metrics", "/config", "/gradio_api/info", "/gradio_api/heartbeat/x"):
        assert ask(path).status == 401, path
    assert ask("/predict", {"texts": ["a"]}).status == 401
    assert ask("/gradio_api/queue/join", {"data": []}).status == 401
    assert ask("/predict", {"texts": ["a"]}, Authorization="Bearer wrong").status == 401
    assert ask("/predict", {"texts": ["a"]}, Authorization=f"Basic {TOKEN}").status == 401
    assert ask("/predict", {"texts": ["a"]}, Cookie=f"greffe={TOKEN}").status == 401
    assert ask("/predict", {"texts": ["a"]}, **BEARER).status == 200
    assert ask("/openapi.json", **BEARER).json["security"] == [{"token": []}]
    assert ask("/login", b"token=" + b"x" * 10_000).status == 413


def test_no_other_file_is_served(classifier_server: ModelServer, models: Path) -> None:
    for path in ("/etc/passwd", str(models / "reviews" / "config.json"), "server.log"):
        assert classifier_server.ask(f"/gradio_api/file={path}", **BEARER).status in (403, 404), path


def test_try_a_text(page: Browser, models: Path) -> None:
    text = "un très bon livre <b>&amp;"
    page.type("try-text", text)
    page.click("try-run")
    prediction = load_classifier(models / "reviews").predict([text])[0]
    page.wait(lambda: prediction.label in page.read("#try-result .greffe-answer"), "the label")
    assert bars(page, "try-result") == {name: f"{share:.1%}" for name, share in prediction.top(2)}
    page.wait(lambda: page.read("#try-why .greffe-text") == text, "the explanation")
    scored = [e for e in page._all("#try-why .greffe-text span") if "rgb" in e.get_attribute("style")]
    assert len(scored) >= 4


def test_compare(page: Browser, models: Path) -> None:
    page.open_tab("Compare")
    page.type("compare-text", "la mauvais film")
    page.click("compare-run")
    for number, name in enumerate(("reviews", "older")):
        prediction = load_classifier(models / name).predict(["la mauvais film"])[0]
        page.wait(lambda n=number: bars(page, f"compare-result-{n}"), name)
        assert bars(page, f"compare-result-{number}") == {key: f"{share:.1%}" for key, share in prediction.top(2)}
        page.wait(lambda n=number: page.read(f"#compare-why-{n} .greffe-text"), name)


def test_upload_a_file_and_download_predictions(page: Browser, models: Path, tmp_path: Path) -> None:
    texts = make_texts(200)
    path = tmp_path / "some reviews.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([["id", "review, long", "prediction"], *([n, t, "x"] for n, t in enumerate(texts))])
    page.open_tab("Predict a file")
    page.driver.find_element("css selector", "#file-input input[type=file]").send_keys(str(path))
    choose_column(page, "review, long")
    page.click("file-run")
    link = page.find("#file-output a[href]")
    assert page.read("#file-result .greffe-answer") == "200 rows"
    content = fetch(page, link.get_attribute("href"))
    rows = list(csv.reader(content.splitlines()))
    assert rows[0] == ["id", "review, long", "prediction", "greffe_prediction", "greffe_probability"]
    predictions = load_classifier(models / "reviews").predict(texts)
    assert [row[:4] for row in rows[1:]] == [
        [str(number), text, "x", prediction.label]
        for number, (text, prediction) in enumerate(zip(texts, predictions, strict=True))
    ]
    counts = {label: sum(prediction.label == label for prediction in predictions) for label in ("bad", "good")}
    assert bars(page, "file-result") == {label: str(number) for label, number in counts.items() if number}


def choose_column(page: Browser, name: str) -> None:
    box = page.find("#file-column input")
    page.wait(lambda: box.get_attribute("value") == "id", "the columns of the file")
    box.click()
    page.wait(lambda: next((e for e in page._all("[role=option]") if name in e.text), None), name).click()


def fetch(page: Browser, address: str) -> str:
    """What a click on a link would download."""
    script = "const done = arguments[1]; fetch(arguments[0]).then(answer => answer.text()).then(done)"
    return page.driver.execute_async_script(script, address)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("text\n" + "un livre\n" * 301, "expected at most 300 rows, found more"),
        ("text\n" + "un livre\n" * 20_000, "File(s) exceed the maximum allowed size"),
        ("", "expected a line of column names in bad.csv, found an empty file"),
    ],
)
def test_files_that_are_refused(page: Browser, tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "bad.csv").write_text(content)
    page.open_tab("Predict a file")
    page.driver.find_element("css selector", "#file-input input[type=file]").send_keys(str(tmp_path / "bad.csv"))
    if "300 rows" in message:
        page.wait(lambda: page.find("#file-run").is_enabled(), "the columns")
        page.click("file-run")
    page.wait(lambda: message in page.driver.find_element("tag name", "body").text, message)


def test_names_of_columns_are_not_taken_for_html(page: Browser, tmp_path: Path) -> None:
    name = "<b>x</b> &lt; <img src=x>"
    (tmp_path / "evil.csv").write_text(f"text,{name},{name}\nun livre,1,2\n")
    page.open_tab("Predict a file")
    page.driver.find_element("css selector", "#file-input input[type=file]").send_keys(str(tmp_path / "evil.csv"))
    page.wait(lambda: page.find("#file-run").is_enabled(), "the columns")
    page.click("file-run")
    message = f"expected each column once in evil.csv, found ['text', '{name}', '{name}']; rename all but one"
    page.wait(lambda: message in page.driver.find_element("tag name", "body").text, message)


def test_an_upload_is_limited_without_a_browser_too(classifier_server: ModelServer) -> None:
    head = b'--x\r\nContent-Disposition: form-data; name="files"; filename="a.csv"\r\n\r\n'
    sent = {**BEARER, "Content_Type": "multipart/form-data; boundary=x"}
    for size, status in ((50_000, 200), (120_000, 413)):
        body = head + b"a" * size + b"\r\n--x--\r\n"
        assert classifier_server.ask("/gradio_api/upload", body, **sent).status == status
    # What announces itself as far too long is not read at all: whoever sent it might not get to the answer.
    assert classifier_server.ask("/gradio_api/upload", head, Content_Length="3000000", **sent).status == 413


def test_continue_a_text(browser: Browser, writer_server: ModelServer, models: Path) -> None:
    """The default settings have no seed: what is written is not known, only that it goes on and can be stopped."""
    browser.driver.get(writer_server.address)
    browser.type("write-prompt", "un livre")
    browser.click("write-run")
    box = browser.find("#write-result-0 textarea")
    browser.wait(lambda: len(box.get_attribute("value").split()) > 4, "a text")
    assert box.get_attribute("value").startswith("un livre ")


def test_compare_two_language_models(browser: Browser, writer_server: ModelServer, models: Path) -> None:
    browser.driver.get(writer_server.address)
    browser.open_tab("Compare")
    browser.type("compare-prompt", "un livre")
    open_settings(browser)
    set_slider(browser, "Most tokens to write", "9")
    set_slider(browser, "Temperature", "0")
    browser.click("compare-run")
    texts = []
    for number, name in enumerate(("writer", "other")):
        model = load_language_model(models / name)
        texts.append("un livre" + "".join(model.generate("un livre", max_new_tokens=9, temperature=0)))
        box = browser.find(f"#compare-result-{number} textarea")
        browser.wait(lambda b=box, t=texts[-1]: b.get_attribute("value") == t, texts[-1])
    assert texts[0] != texts[1]


def test_stop_writing(browser: Browser, writer_server: ModelServer) -> None:
    browser.driver.get(writer_server.address)
    browser.type("write-prompt", "un livre")
    open_settings(browser)
    set_slider(browser, "Most tokens to write", "1000000")
    browser.click("write-run")
    box = browser.find("#write-result-0 textarea")
    browser.wait(lambda: len(box.get_attribute("value").split()) > 4, "a text")
    browser.click("write-stop")
    answer = writer_server.ask("/generate", {"prompt": "la", "max_new_tokens": 2, "temperature": 0})
    assert answer.status == 200
    length = len(box.get_attribute("value"))
    time.sleep(0.5)
    assert len(box.get_attribute("value")) <= length + 20


def open_settings(browser: Browser) -> None:
    browser.wait(lambda: next((e for e in browser._all("button") if "Settings" in e.text), None), "settings").click()


def set_slider(browser: Browser, label: str, value: str) -> None:
    box = browser.find(f"input[type=number][aria-label*='{label}']")
    box.clear()
    box.send_keys(value + "\t")


def test_nothing_comes_from_elsewhere(
    browser: Browser, classifier_server: ModelServer, writer_server: ModelServer
) -> None:
    requested_addresses(browser.driver)
    for server in (classifier_server, writer_server):
        browser.driver.get(server.address)
        browser.find("textarea")
        time.sleep(1)
    addresses = requested_addresses(browser.driver)
    ours = (classifier_server.address, writer_server.address, "data:", "blob:", "chrome")
    assert len(addresses) > 10
    assert [address for address in addresses if not address.startswith(ours)] == []
    assert classifier_server.connections() == writer_server.connections() == []


def test_open_pages_do_not_hold_up_the_end(browser: Browser, writer_server: ModelServer) -> None:
    """A page keeps a connection for as long as it is shown."""
    browser.driver.get(writer_server.address)
    browser.find("#write-prompt textarea")
    time.sleep(1)
    assert writer_server.stop() == 0
