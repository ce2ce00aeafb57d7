"""What `driver.py` is on a machine on which all is well."""


def problem():
    return None
