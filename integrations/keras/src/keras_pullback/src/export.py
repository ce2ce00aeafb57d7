"""Export: programs are saved by `pb.function(model).lower(...).save(folder)`."""

from keras.src.export.saved_model_export_archive import SavedModelExportArchive


class ExportArchive(SavedModelExportArchive):
    def __init__(self):
        raise NotImplementedError(
            "`export_saved_model` only currently supports the tensorflow, jax and torch backends. "
            "Save a program by pullback.function(model).lower(inputs).save(folder)"
        )
