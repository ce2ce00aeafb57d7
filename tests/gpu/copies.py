"""Checks that a training step does not wait for the device unless it is asked to.

CuPy itself raises where a copy to the host or a wait is forbidden. A step that CUDA records as a
graph has no wait that CuPy does not know of either.
"""

from __future__ import annotations

import common


def main() -> None:
    given = common.arguments(__doc__)
    common.use_cupy()
    import cupy
    import cupyx

    step = common.module("tests/gpu/small_model.py").make_step(given.device)
    for _ in range(3):
        step()  # builds the layers, compiles the kernels, fills the pool of memory
    copies, recorded = "none", "yes"
    try:
        with cupyx.allow_synchronize(False):
            loss = step()
    except cupyx.DeviceSynchronized as error:
        copies = f"at least one: {error}"
        loss = step()
    asked = float(loss)
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        step()
        stream.synchronize()
        stream.begin_capture()
        try:
            step()
        except Exception as error:
            recorded = f"no: {error}"
        finally:
            try:
                stream.end_capture()
            except Exception as error:
                recorded = f"no: {error}"
    table = [
        "| copies to the host in a step | the loss, asked for | a step recorded as a CUDA graph |",
        "|---|---|---|",
        f"| {copies} | {asked:.4f} | {recorded} |",
    ]
    common.finish(given, {"copies": copies, "recorded": recorded, "table": table}, copies == "none")


if __name__ == "__main__":
    main()
