"""Puts `keras_pullback.pth` beside the package: Python runs its line when it starts."""

from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py


class WithPth(build_py):
    """Copies the file next to the package, where wheels have what goes into site-packages."""

    def run(self):
        """Copies what a build always has, and the file."""
        super().run()
        if not self.editable_mode:
            self.copy_file("keras_pullback.pth", str(Path(self.build_lib) / "keras_pullback.pth"))

    def get_source_files(self):
        """The files of a source distribution."""
        return [*super().get_source_files(), "keras_pullback.pth"]


setup(cmdclass={"build_py": WithPth})
