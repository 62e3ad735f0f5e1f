"""Which trajectory each reward of ``--rewards`` belongs to: every one to exactly one, or the import is refused."""

from collections.abc import Mapping, Sequence

from lhaw_record.runners.imports.foreign_trial import ImportFailed, ParsedFile, SourceFile


def rewards_by_place(rewards: Mapping[str, float], sources: Sequence[SourceFile]) -> Mapping[str, float]:
    """Return the rewards by the label of a file, with the line where one is named."""
    labels = {source.label for source in sources}
    found: dict[str, float] = {}
    for given, reward in rewards.items():
        stem, colon, line = given.rpartition(":")
        has_line = line.isdecimal() and any(stem in (source.label, source.name) for source in sources)
        name, suffix = (stem, colon + line) if has_line else (given, "")
        meant = [name] if name in labels else sorted(source.label for source in sources if source.name == name)
        if not meant:
            raise ImportFailed(f"--rewards names {given}, which is no file of this import; correct or remove it")
        if len(meant) > 1:
            raise ImportFailed(f"--rewards names {given}, which may be {' or '.join(meant)}; give the path")
        place = meant[0] + suffix
        if place in found:
            raise ImportFailed(f"--rewards names {place} twice, by its name and by its path; remove one")
        found[place] = reward
    return found


def check_used(rewards: Mapping[str, float], sources: Sequence[SourceFile], found: Sequence[ParsedFile]) -> None:
    """Check that each reward is that of a trajectory, of one that was found or of a file of which some were skipped."""
    places = {trial.place for part in found for trial in part.trials}
    lacking = [source.label for source, part in zip(sources, found, strict=True) if part.skipped]
    for place in rewards:
        is_skipped = any(place == label or place.startswith(f"{label}:") for label in lacking)
        if place not in places and not is_skipped:
            raise ImportFailed(f"--rewards names {place}, where no trajectory begins; correct or remove it")
