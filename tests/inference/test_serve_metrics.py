"""Counters as Prometheus reads them."""

import re

from greffe.inference.server.metrics import Metrics

LINE = re.compile(r'[a-z_]+(\{[a-z]+="[^"]*"(,[a-z]+="[^"]*")*\})? -?[0-9.]+')


def test_what_was_counted_can_be_read() -> None:
    metrics = Metrics()
    metrics.watch_queue("predict", lambda: 7)
    for status, seconds in ((200, 0.004), (200, 0.2), (429, 0.001), (500, 70.0)):
        metrics.count_request("/predict", status, seconds)
    metrics.count_request("/health", 200, 0.001)
    for size in (1, 3, 32):
        metrics.count_batch(size)
    metrics.count_texts("read", 36)
    lines = metrics.render().splitlines()
    assert all(line.startswith("# ") or LINE.fullmatch(line) for line in lines)
    values = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    assert values['greffe_requests_total{endpoint="/predict",status="200"}'] == "2"
    assert values['greffe_errors_total{endpoint="/predict"}'] == "2"
    assert values['greffe_errors_total{endpoint="/health"}'] == "0"
    seconds = {bound: values[f'greffe_request_seconds_bucket{{endpoint="/predict",le="{bound}"}}'] for bound in (
        "0.005", "0.1", "0.25", "60.0", "+Inf")}  # fmt: skip
    assert seconds == {"0.005": "2", "0.1": "2", "0.25": "3", "60.0": "3", "+Inf": "4"}
    assert values['greffe_request_seconds_count{endpoint="/predict"}'] == "4"
    assert float(values['greffe_request_seconds_sum{endpoint="/predict"}']) == 70.205
    assert values['greffe_queue_length{queue="predict"}'] == "7"
    assert [values[f'greffe_batch_size_bucket{{le="{bound}"}}'] for bound in (1, 2, 4, 32, "+Inf")] == [*"11233"]
    assert values["greffe_batch_size_sum"] == "36.000000"
    assert values['greffe_texts_total{kind="read"}'] == "36"
    # Each name is explained and typed once, before its values.
    names = re.findall(r"^# TYPE (\S+) ", metrics.render(), re.MULTILINE)
    assert len(names) == len(set(names)) == 6
