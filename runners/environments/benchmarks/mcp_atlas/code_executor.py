"""An MCP server that runs Python, as a stand-in for the benchmark's code executor, which cannot be installed here.

It offers the tools that published rows use, with the same names and result shapes. It runs confined in its own virtual
environment like every other server, so it imports nothing of this project.
"""

import hashlib
import json
import os
import resource
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from mcp.server import MCPServer

WORKSPACE = Path(os.environ.get("CODE_WORKSPACE", "/data/repos/mcp_code_executor_workspace"))
CODE_SECONDS = 45.0
MEMORY_BYTES = 2 << 30
MAX_OUTPUT = 65_536

server = MCPServer("mcp-code-executor (stand-in)", version="1", log_level="ERROR")


@server.tool(structured_output=False)
def execute_code(code: str, filename: str = "") -> str:
    """Run Python code in the workspace and return what it printed. pandas and numpy are available."""
    WORKSPACE.mkdir(parents=True, exist_ok=True)
    name = Path(filename).name or f"code_{hashlib.sha256(code.encode()).hexdigest()[:8]}.py"
    path = WORKSPACE / name
    path.write_text(code, encoding="utf-8")
    kept = {"file_path": str(path), "generated_filename": name}
    try:
        done = subprocess.run(  # running code is what this tool is for; the sandbox confines it
            [sys.executable, str(path)],
            cwd=WORKSPACE,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=CODE_SECONDS,
            check=False,
            preexec_fn=_limit_memory,
        )
    except subprocess.TimeoutExpired:
        return json.dumps({"status": "error", "error": f"no end within {CODE_SECONDS:g} seconds", **kept})
    output = done.stdout[:MAX_OUTPUT].decode(errors="replace")
    if done.returncode != 0:
        error = done.stderr[-MAX_OUTPUT:].decode(errors="replace")
        return json.dumps({"status": "error", "output": output, "error": error, **kept})
    return json.dumps({"status": "success", "output": output, **kept})


@server.tool(structured_output=False)
def read_code_file(file_path: str) -> str:
    """Return the content of a file of the workspace."""
    path = (WORKSPACE / file_path).resolve()
    if not path.is_relative_to(WORKSPACE.resolve()) or not path.is_file():
        return json.dumps({"status": "error", "error": f"no file {file_path} in the workspace"})
    return json.dumps({"status": "success", "content": path.read_text(errors="replace"), "file_path": str(path)})


@server.tool(structured_output=False)
def check_installed_packages(packages: list[str]) -> str:
    """Say which of the named packages are installed, and in which version."""
    found = []
    for package in packages:
        try:
            found.append({"package": package, "installed": True, "version": version(package)})
        except PackageNotFoundError:
            found.append({"package": package, "installed": False, "version": None})
    return json.dumps({"status": "success", "package_details": found})


@server.tool(structured_output=False)
def get_environment_config() -> str:
    """Return the kind of Python environment and the workspace folder."""
    config = {"type": "venv", "python": sys.version.split()[0], "codeStorageDir": str(WORKSPACE)}
    return json.dumps({"status": "success", "config": config})


def _limit_memory() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))


if __name__ == "__main__":
    server.run("stdio")
