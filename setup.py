"""What pyproject.toml cannot say: a wheel carries, as webapp/files, what lies beside the packages in a checkout."""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

FILES = ("templates", "static", "examples", "manage.py")


class WithFiles(build_py):
    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
        target = Path(self.build_lib) / "webapp" / "files"
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        for name in FILES:
            if Path(name).is_dir():
                shutil.copytree(name, target / name, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(name, target)


setup(cmdclass={"build_py": WithFiles})
