"""Prompt templates of the models that extract, rewrite and judge. Files in a user's folder may replace any of them."""

from collections.abc import Mapping
from pathlib import Path

from lhaw_record.recorder.events.values import Severity
from lhaw_record.recorder.resources import data_path
from lhaw_record.runners.base.errors import ExperimentError
from lhaw_record.runners.models.llm_jobs.prompt_template import PromptTemplate

_FOLDER = ("generation", "prompts")
_SEVERITIES: tuple[Severity, ...] = ("delete", "vaguify", "genericize")


class PromptTemplates:
    """The templates of the extractor, the rewriter, the judge and the asker.

    Args:
        folder: A folder whose files replace those of the same name in ``data/generation/prompts``; None for no changes.

    Raises:
        ExperimentError: The folder has no template or an unknown one, or a template lacks a placeholder.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._own = _own_files(folder) if folder else {}
        self.extraction = self._template("extract.md", ("task", "checkpoints", "files", "trajectory"))
        self.rewriting = self._template("rewrite.md", ("severity", "segments", "task", "problems"))
        self.guessing = self._template("guess.md", ("task", "files", "questions"))
        self.assessing = self._template("assess.md", ("original", "segments", "severity", "task", "questions"))
        self.asking = self._template("ask.md", ("original", "segments", "task"))
        self.severities: Mapping[Severity, str] = {
            severity: self._text(f"severity_{severity}.md") for severity in _SEVERITIES
        }

    def _template(self, name: str, placeholders: tuple[str, ...]) -> PromptTemplate:
        return PromptTemplate((*_FOLDER, name), self._own.get(name), placeholders)

    def _text(self, name: str) -> str:
        path = self._own.get(name) or data_path(*_FOLDER, name)
        try:
            text = path.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ExperimentError(f"{path}: the wording cannot be read: {error}") from error
        if not text:
            raise ExperimentError(f"{path}: the wording is empty; copy data/{'/'.join(_FOLDER)}/{name}")
        return text


def _own_files(folder: Path) -> dict[str, Path]:
    """Return the templates in a user's folder, by file name."""
    known = sorted(path.name for path in data_path(*_FOLDER).glob("*.md"))
    found = {path.name: path for path in sorted(folder.glob("*.md"))}
    unknown = [name for name in found if name not in known]
    if not found or unknown:
        what = f"{unknown[0]} is no prompt of generation" if unknown else "no prompt is there"
        raise ExperimentError(f"{folder}: {what}; the files are {', '.join(known)}; copy those that you change")
    return found
