"""Fixtures that see what datasets have running, for tests that nothing is left of it."""

from __future__ import annotations

import gc
import multiprocessing
import threading
import time
from contextlib import suppress

import pytest


class Running:
    """The threads and processes of datasets."""

    @staticmethod
    def until(condition):
        """Waits until something holds; says whether it came to that."""
        deadline = time.monotonic() + 120
        while not condition() and time.monotonic() < deadline:
            time.sleep(0.005)
        return condition()

    @staticmethod
    def threads():
        return [one for one in threading.enumerate() if one.name.startswith("pullback-")]

    def nothing(self):
        """Waits until nothing runs; says whether it came to that."""
        return self.until(lambda: not self.threads() and not multiprocessing.active_children())

    def assert_nothing(self):
        assert self.nothing(), (self.threads(), multiprocessing.active_children())

    def assert_nothing_after_an_error(self, dataset, kind):
        """No cycle of the error with what raised it keeps the iterator: nobody collects any."""
        gc.collect()
        gc.disable()
        try:
            with suppress(kind):
                for _ in dataset:
                    pass
            self.assert_nothing()
        finally:
            gc.enable()


@pytest.fixture(scope="session")
def running():
    return Running()


@pytest.fixture
def nothing_is_left(running):
    """Fails a test that leaves a thread or a process."""
    yield
    gc.collect()
    running.assert_nothing()
