"""The part of a layer that depends on the backend: none."""


class BackendLayer:
    pass
