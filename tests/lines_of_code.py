"""Count the product's lines of code and files against a budget: ``python -m tests.lines_of_code``.

A line of code is one of Python outside tests/ that is neither blank nor a comment nor part of a docstring (also of one
below a constant or a field). A feature pays for itself with what it makes needless.
"""

import ast
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUDGET = ROOT / "tests" / "lines_of_code.toml"


def product_files(root: Path) -> list[Path]:
    """Return the product's Python files: all that git knows, or would add, but for tests/."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.py"]
    names = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout.splitlines()
    return [root / name for name in names if not name.startswith("tests/") and (root / name).is_file()]


def lines_of_code(text: str) -> int:
    """Return how many lines of a module are code."""
    strings = {
        number
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for number in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    lines = enumerate(text.splitlines(), start=1)
    return sum(bool(line.strip()) and line.lstrip()[0] != "#" and number not in strings for number, line in lines)


def main() -> int:
    """Print code lines by folder, and return 1 if there are more lines or files than the budget allows."""
    files = product_files(ROOT)
    texts = {path: path.read_text(encoding="utf-8") for path in files}
    code = Counter[str]()
    for path, text in texts.items():
        parts = path.relative_to(ROOT).parts
        code["/".join(parts[: 2 if parts[0] == "runners" else 1])] += lines_of_code(text)
    for room, lines in sorted(code.items()):
        sys.stdout.write(f"{lines:7,} {room}\n")
    found = {
        "code": code.total(),
        "lines": sum(len(text.splitlines()) for text in texts.values()),
        "files": len(files),
    }
    budget = tomllib.loads(BUDGET.read_text(encoding="utf-8"))
    sys.stdout.write(", ".join(f"{found[name]:,} of {budget[name]:,} {name}" for name in found) + "\n")
    over = [name for name in found if found[name] > budget[name]]
    if over:
        sys.stdout.write(
            f"over the budget of {BUDGET.relative_to(ROOT)}: {', '.join(over)}; delete what the change made needless\n"
        )
    return len(over) > 0


if __name__ == "__main__":
    sys.exit(main())
