"""List docstrings and comments that read badly: ``python -m tests.prose``, part of `make lint`.

Each pattern is a turn of phrase that no native speaker uses, or one that hides what it speaks of.
"""

import ast
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

from tests.lines_of_code import ROOT, product_files

_NO = "longer|more|less|later|earlier|other|room|such"
PATTERNS = {
    "a sentence that begins with 'Of'": r"(?:^|[.;:] )Of (?!course|\d)",
    "'what stands'": r"\bwhat stands (?:there|in|below|above|at|on)\b",
    "'those of' after a preposition or at the start": r"(?:^|[.] )Those of\b",
    "'Return that'": r"\bReturn that\b",
    "'whether … tells'": r"\b[Ww]hether [^.]{0,60}\btells\b",
    "a verb before 'not'": r"\b(?:likes|knows|tells|reads|needs|wants|gives|says|takes|allows) not\b(?! only)",
    "'is no'": rf"(?<![Tt]here )\b(?:is|are|was|were) no (?!{_NO})(?=\w+[.,;:]? *$)",
    "'of ours'": r"^(?!noqa).*\bof ours\b",
    "'stands' for 'is'": r"\bst(?:ands?|ood) (?:in|there|below|under|around|before|beside|between|still|together)\b",
    "'tells' for 'reveals'": r"\btells? (?:a|the|its|their|another) (?:removed )?value",
    "'of' for 'about'": r"\b(?:says|has) of (?:it|a|the|cost)\b",
    "'perhaps' after a verb": r"\b(?:is|are|was|were|has|have) perhaps\b",
    "a word of fables": r"\blast words\b|\bspoilt\b|\b[Ww]hoever\b",
    "a riddle": r"\bfrom here on who\b|\bwho has it\b|\bcame as far as\b|\bfor the want of\b|\bof one mind\b",
}


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of each docstring and comment of a file."""
    source = path.read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, " ".join(node.value.value.split())
    for token in tokenize.generate_tokens(iter(source.splitlines(keepends=True)).__next__):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string.lstrip("# ")


def main() -> int:
    """Print each place with its pattern, and return 1 if there is one."""
    count = 0
    for path in product_files(ROOT):
        for line, text in texts(path):
            for name, pattern in PATTERNS.items():
                if found := re.search(pattern, text):
                    count += 1
                    excerpt = text[max(0, found.start() - 40) : found.end() + 40]
                    sys.stdout.write(f"{path.relative_to(ROOT)}:{line}: {name}: … {excerpt} …\n")
    return count > 0


if __name__ == "__main__":
    sys.exit(main())
