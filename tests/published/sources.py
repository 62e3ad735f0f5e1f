"""The published repositories that the suite reads, each at one commit, in a cache that is never committed.

``python -m tests.published.sources`` fetches them. Where GitHub is not reached, git's own ``url.*.insteadOf`` names a
mirror. One of ``file://`` that holds the needed files only is enough, if git's settings also say
``uploadpack.allowFilter = true`` and ``uploadpack.allowAnySHA1InWant = true``.
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

CACHE = Path(os.environ.get("LHAW_RECORD_PUBLISHED") or Path.home() / ".cache" / "lhaw-record" / "published")


class Source(NamedTuple):
    """A repository at a commit.

    Attributes:
        repository: Its name on GitHub.
        commit: What is read of it.
        paths: The files and folders that are fetched, as patterns of ``.gitignore``.
    """

    repository: str
    commit: str
    paths: tuple[str, ...]

    @property
    def folder(self) -> Path:
        """Its place in the cache."""
        return CACHE / f"{self.repository.replace('/', '+')}@{self.commit[:12]}"

    @property
    def is_here(self) -> bool:
        """Whether it was fetched whole."""
        return (self.folder / ".git" / "lhaw-record-fetched").exists()

    def fetch(self) -> None:
        """Fetch it; one that is there is left as it is."""
        if self.is_here:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        self.git("init", "--quiet")
        self.git("config", "remote.origin.url", f"https://github.com/{self.repository}")
        self.git("fetch", "--quiet", "--depth", "1", "--filter", "blob:none", "origin", self.commit)
        self.git("sparse-checkout", "set", "--no-cone", *self.paths)
        self.git("-c", "advice.detachedHead=false", "checkout", "--quiet", "--force", self.commit)
        (self.folder / ".git" / "lhaw-record-fetched").touch()

    def git(self, *arguments: str) -> str:
        """Run git in its folder and return what it prints."""
        done = subprocess.run(["git", "-C", self.folder, *arguments], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"git {arguments[0]} of {self.repository}: {done.stderr.strip()[-500:]}")
        return done.stdout


MCP_ATLAS = Source("scaleapi/mcp-atlas", "5b6220c64d55072d4ab6c028fa4aba063da9901b", ("/services/scoring/", "/LICENSE"))
MCP_ATLAS_ROWS = Source(
    "scaleapi/mcp-atlas", "b268104d18bae93b43b10f2a90e03607efb348d7", ("/services/mcp_eval/sample_tasks.csv",)
)
SWEBENCH_PRO = Source(
    "scaleapi/SWE-bench_Pro-os",
    "ca10a60a5fcae51e6948ffe1485d4153d421e6c5",
    ("/swe_bench_pro_eval.py", "/helper_code/image_uri.py", "/LICENSE"),
)
TAC = Source(
    "li-boxuan/TheAgentCompany",  # a fork by one of its authors at release 1.0.0
    "7a92c7615f6d2a37f454371d880101f8881e8d4f",
    ("/workspaces/base_image/", "/workspaces/tasks/", "/LICENSE"),
)
TAC_FOLDER = Path(os.environ.get("LHAW_RECORD_TAC_REPOSITORY") or TAC.folder)
"""TheAgentCompany's repository: fetched, or a folder that the variable names."""
TAC_PYTHON = Path(__file__).resolve().parents[2] / ".envs" / "published-tac"
"""What its evaluators import, for the Python of the tests' base image."""
SOURCES = (MCP_ATLAS, MCP_ATLAS_ROWS, SWEBENCH_PRO, TAC)


def main() -> int:
    """Fetch every repository; one that cannot be had costs no other."""
    is_whole = True
    for source in SOURCES:
        try:
            source.fetch()
        except RuntimeError as error:
            sys.stderr.write(f"{error}\n")
            is_whole = False
    sys.stderr.write(f"the published repositories are in {CACHE}\n")
    return 0 if is_whole else 1


if __name__ == "__main__":
    sys.exit(main())
