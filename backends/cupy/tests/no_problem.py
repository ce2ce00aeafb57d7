"""Replaces `driver.py` as on a machine with a GPU, a driver and CuPy."""


def problem():
    return None
