"""Greffe beside its peers, on the same work in one run, as ratios. `make bench`, or `python -m benchmarks.NAME`."""
