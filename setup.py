"""Only what pyproject.toml cannot say: a wheel carries the zoo, which lies beside the package."""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

ZOO = Path(__file__).parent / "zoo"


class BuildWithZoo(build_py):
    """Copies zoo/ to hotlap/zoo, where an installed hotlap looks for it."""

    def run(self) -> None:
        """Build, then copy; a checkout that is installed as it lies needs no copy."""
        super().run()
        if not self.editable_mode and ZOO.is_dir():
            shutil.copytree(ZOO, Path(self.build_lib) / "hotlap" / "zoo", dirs_exist_ok=True)


setup(cmdclass={"build_py": BuildWithZoo})
