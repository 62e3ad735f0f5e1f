"""The main process of a container: create the agent's Python from the image's own, then become the driver."""

# pathlib would cost milliseconds of every start.
# ruff: noqa: PTH103, PTH118, PTH120, PTH123, PTH211
import marshal
import os
import sys

from lhaw_record.runners.environments.sandboxes.inside.driver import main as drive


def main(config: dict, cell_source: str, packages: list) -> None:  # type: ignore[type-arg]
    if config["python_dir"]:
        lay_out(config["python_dir"], packages)
    else:
        config["python"] = sys.executable
    cell = marshal.dumps(compile(cell_source, "<sandbox cell>", "exec", dont_inherit=True, optimize=2))
    drive(config, cell)


def lay_out(folder: str, packages: list) -> None:  # type: ignore[type-arg]
    """Create a virtual environment over this interpreter, in a folder that only root may change."""
    os.umask(0o022)
    version = ".".join(str(part) for part in sys.version_info[:3])
    site_packages = os.path.join(folder, f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages")
    for path in (os.path.join(folder, "bin"), site_packages):
        os.makedirs(path)
    os.symlink(sys.executable, os.path.join(folder, "bin/python3"))
    os.symlink("python3", os.path.join(folder, "bin/python"))
    home = os.path.dirname(os.path.realpath(sys.executable))
    with open(os.path.join(folder, "pyvenv.cfg"), "w") as file:
        file.write(f"home = {home}\ninclude-system-site-packages = false\nversion = {version}\n")
    for name, content, changed_s in packages:
        path = os.path.join(site_packages, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(content)
        os.utime(path, (changed_s, changed_s))  # compiled files are valid only if the source has that time
