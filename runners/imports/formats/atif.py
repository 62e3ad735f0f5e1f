"""Format ``atif``: trajectories in Harbor's interchange format, 1.0 to 1.8, with continuations and sub-agents.

A run may be several documents. They are one trial: of the document that no other one of the import refers to.
"""

from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from lhaw_record.recorder.events import Skipped
from lhaw_record.runners.imports.bare_trajectory import BareTrajectory, parsed_trajectory
from lhaw_record.runners.imports.foreign_trial import ImportFailed, KnownRecords, Options, ParsedFile, SourceFile
from lhaw_record.runners.imports.formats.atif_document import Document, SubAgentRef, read_document
from lhaw_record.runners.imports.formats.atif_turns import trajectory_of
from lhaw_record.runners.imports.source_files import decode_json

FORMAT = "atif"
_IN_CIRCLE = "documents refer to each other in a circle, so none of them begins the run; leave out the reference back"


class Documents:
    """The documents of an import by their file, and which file a reference in one of them means."""

    def __init__(self, sources: Sequence[SourceFile]) -> None:
        self._by_label = {source.label: _document(source) for source in sources}

    def runs(self) -> Iterator[str]:
        """Yield the label of each document that begins a run: no other document refers to it."""
        inner = {label for other in self._by_label for label in self._references(other)}
        yield from (label for label in self._by_label if label not in inner)

    def reached(self) -> frozenset[str]:
        """Return the labels of the documents that begin a run, and of those that they lead to."""
        found: set[str] = set()
        ahead = list(self.runs())
        while ahead:
            label = ahead.pop()
            if label not in found:
                found.add(label)
                ahead += self._references(label)
        return frozenset(found)

    def run(self, label: str) -> tuple[BareTrajectory, list[str]]:
        """Return the run that begins with a document, and remarks about it."""
        chain = [label]
        while (reference := self._by_label[chain[-1]].continued_trajectory_ref) is not None:
            following = self._resolved(chain[-1], reference)
            if following is None:
                raise ValueError(
                    f"the trajectory continues in {reference}, which is not there; import the folder that has it"
                )
            if following in chain:
                raise ValueError(f"the trajectory continues in {reference}, which is a part of it already")
            chain.append(following)
        labels = {id(each): name for name, document in self._by_label.items() for each in _with_embedded(document)}
        used = {id(self._by_label[each]) for each in chain}

        def find(document: Document, reference: SubAgentRef) -> Document | None:
            own = {each.trajectory_id: each for each in document.subagent_trajectories or ()}
            named = self._resolved(labels[id(document)], reference.trajectory_path)
            found = own.get(reference.trajectory_id) or (self._by_label[named] if named else None)
            if found is None or id(found) in used:  # documents may refer to each other in a circle
                return None
            used.add(id(found))
            return found

        documents = [self._by_label[each] for each in chain]
        found, remarks = trajectory_of(documents, find)
        if len(chain) > 1:
            remarks.append(f"continued in {', '.join(chain[1:])}")
        return found, remarks

    def _references(self, label: str) -> Iterator[str]:
        """Yield the label of every other document that a document refers to."""
        document = self._by_label[label]
        paths = [document.continued_trajectory_ref]
        for each in _with_embedded(document):
            results = (result for step in each.steps for result in step.results)
            paths += [ref.trajectory_path for result in results for ref in result.subagent_trajectory_ref or ()]
        for path in paths:
            named = self._resolved(label, path)
            if named is not None and named != label:
                yield named

    def _resolved(self, label: str, reference: str | None) -> str | None:
        """Return the document that a reference means: the file beside its own, also if both were renamed alike.

        Files that are kept outside of their folders often have a prefix: ``x.trajectory.json`` refers to
        ``trajectory.cont-1.json``, which is then ``x.trajectory.cont-1.json``.
        """
        if reference is None:
            return None
        own = PurePosixPath(label)
        prefix, word, _ = own.name.rpartition("trajectory.")
        candidates = [str(own.parent / reference)]
        if word:
            candidates.append(str(own.parent / f"{prefix}{PurePosixPath(reference).name}"))
        return next((each for each in candidates if each in self._by_label), None)


def parse_all(sources: Sequence[SourceFile], options: Options, known: KnownRecords) -> list[ParsedFile]:
    """Return a trial for each run that the documents describe."""
    documents = Documents(sources)
    begins, reached = set(documents.runs()), documents.reached()
    return [
        _parsed(source, documents, options, known)
        if source.label in begins
        else ParsedFile(remarks=("belongs to the run of another file",))
        if source.label in reached
        else ParsedFile(skipped=(Skipped(kind="trajectories", count=1, reason=_IN_CIRCLE),))
        for source in sources
    ]


def _parsed(source: SourceFile, documents: Documents, options: Options, known: KnownRecords) -> ParsedFile:
    try:
        found, remarks = documents.run(source.label)
    except ValueError as error:
        return ParsedFile(skipped=(Skipped(kind="trajectories", count=1, reason=str(error)),))
    return parsed_trajectory(source.label, found, options, known, format_name=FORMAT, remarks=remarks)


def _document(source: SourceFile) -> Document:
    try:
        return read_document(decode_json(source))
    except ValueError as error:
        raise ImportFailed(f"{source.label} is not a valid ATIF document: {error}") from error


def _with_embedded(document: Document) -> Iterator[Document]:
    yield document
    for each in document.subagent_trajectories or ():
        yield from _with_embedded(each)
