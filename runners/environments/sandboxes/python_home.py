"""The agent's Python: our own interpreter, with openpyxl but none of our other packages."""

import importlib.util
import os
import sys
import sysconfig
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

import msgspec

# What tasks may use besides the standard library. All our own code, including graders and answers, is excluded.
AGENT_PACKAGES = ("openpyxl", "et_xmlfile")


class PythonHome(msgspec.Struct, frozen=True, kw_only=True):
    """A virtual environment to create: interpreter, library, and packages with their folders on the host.

    ``masked`` are host folders with our own files, which may be below a mounted folder.
    """

    executable: str
    base_prefix: str
    version: str
    packages: tuple[tuple[str, str], ...]
    masked: tuple[str, ...]

    @property
    def config_text(self) -> str:
        return (
            f"home = {Path(self.executable).parent}\ninclude-system-site-packages = false\nversion = {self.version}\n"
        )

    @property
    def site_packages(self) -> str:
        return f"lib/python{'.'.join(self.version.split('.')[:2])}/site-packages"

    def masks(self, shown: Mapping[str, str]) -> list[str]:
        """Return where our own files would appear in a sandbox."""
        places = set()
        for path, source in shown.items():
            real = os.path.realpath(source)
            below = [Path(folder).relative_to(real) for folder in self.masked if Path(folder).is_relative_to(real)]
            places |= {str(Path(path, each)) for each in below}
        return sorted(places)


@lru_cache(maxsize=1)
def current_python_home() -> PythonHome:
    """Return the environment for the interpreter that runs this process."""
    base_executable: str = getattr(sys, "_base_executable", sys.executable) or sys.executable
    packages = []
    for name in AGENT_PACKAGES:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.submodule_search_locations:
            packages.append((name, os.path.realpath(spec.submodule_search_locations[0])))
    return PythonHome(
        executable=os.path.realpath(base_executable),
        base_prefix=os.path.realpath(sys.base_prefix),
        version=".".join(str(part) for part in sys.version_info[:3]),
        packages=tuple(packages),
        masked=_folders_with_our_files(),
    )


def _folders_with_our_files() -> tuple[str, ...]:
    """Return where this file is installed, and the package folders of the base interpreter."""
    base = {"base": sys.base_prefix, "platbase": sys.base_prefix, "installed_base": sys.base_prefix}
    library = Path(sys.base_prefix, "lib", f"python{sys.version_info[0]}.{sys.version_info[1]}")
    folders = {
        Path(__file__).parents[4],
        Path(sysconfig.get_path("purelib", vars=base)),
        Path(sysconfig.get_path("platlib", vars=base)),
        library / "site-packages",
        library / "dist-packages",
    }
    return tuple(sorted({os.path.realpath(folder) for folder in folders if folder.is_dir()}))


def lay_out(home: PythonHome, folder: Path) -> None:
    """Create the environment in a real folder, with links instead of mounts."""
    packages = folder / home.site_packages
    packages.mkdir(parents=True)
    (folder / "bin").mkdir()
    (folder / "bin" / "python3").symlink_to(home.executable)
    (folder / "bin" / "python").symlink_to("python3")
    (folder / "pyvenv.cfg").write_text(home.config_text)
    for name, path in home.packages:
        (packages / name).symlink_to(path)
