"""From which version of its task a variant was made: one rule, and one answer for everyone who asks."""

import msgspec
import pytest

from lhaw_record.analytics.exports import dataset_rows
from lhaw_record.recorder.events import Envelope, TaskRegistered, VariantGenerated
from lhaw_record.recorder.events.values import Checkpoint, Task, Variant
from lhaw_record.recorder.reading.reader import read_snapshot
from lhaw_record.recorder.reading.registrations import Registrations
from lhaw_record.runners.runs.planning.variant_sources import StoredVariants
from tests.analytics.make_store import Store as Written
from tests.generators.selection.stores import to_disk

OLD, NEW = (
    Task(
        benchmark="desk",
        benchmark_version="1",
        task_id="t",
        prompt=prompt,
        environment_digest="e",
        checkpoints=(Checkpoint(checkpoint_id="c", label="c", total=1.0),),
    )
    for prompt in ("Do this by Friday.", "Do this by Monday.")
)
VARIANT = Variant(
    benchmark="desk", task_id="t", variant_id="v", prompt="Do this.", segments=(), origin="generated", severity="delete"
)


def registered(*steps: tuple[str, Task | None]) -> Registrations:
    """Registrations from steps: an experiment registers a task, or (None) the variant; "x>" names the new version."""
    envelopes = []
    for place, (experiment, task) in enumerate(steps):
        name, _, version = experiment.partition(">")
        named = {"old": OLD.task_digest, "new": NEW.task_digest, "lost": "0" * 64}.get(version)
        event = (
            TaskRegistered(task=task, task_digest=task.task_digest)
            if task
            else VariantGenerated(variant=VARIANT, variant_digest=VARIANT.variant_digest, task_digest=named)
        )
        envelopes.append(
            Envelope(
                stream_id=f"run-{name}",
                sequence=place,
                recorded_at_us=place,
                elapsed_ns=0,
                writer_id="w000000000000",
                experiment_id=name,
                trial_id=None,
                attempt=None,
                event=event,
            )
        )
    return Registrations(reversed(envelopes))


@pytest.mark.parametrize(
    ("steps", "experiment", "expected"),
    [
        ([("a", OLD), ("a>old", None), ("a", NEW)], None, OLD),  # the version that the registration names
        ([("a", OLD), ("a", NEW), ("a>old", None), ("b>new", None)], None, NEW),  # the last name decides ...
        ([("a", OLD), ("a", NEW), ("a>old", None), ("b>new", None)], "a", OLD),  # ... of the experiment in question
        ([("a", OLD), ("a>old", None), ("a", NEW), ("b", None)], "b", OLD),  # a name elsewhere beats no name
        ([("a", OLD), ("a>lost", None)], None, None),  # the named version is not here
        ([("a", OLD), ("a", None), ("a", NEW)], None, OLD),  # unnamed: the last version before it
        ([("a", OLD), ("b", NEW), ("a", None)], None, OLD),  # of its own experiment
        ([("b", NEW), ("a", None)], None, NEW),  # else of any
        ([("a", None), ("a", OLD), ("b", NEW)], None, NEW),  # none before it: the last at all
        ([("a", OLD)], None, None),  # never registered
    ],
)
def test_the_version_that_a_variant_was_made_from(steps, experiment, expected):
    """Each case of the rule, whatever the order in which the events are read."""
    assert registered(*steps).task_of(VARIANT.variant_digest, experiment) == expected


@pytest.mark.sampled(2)
@pytest.mark.parametrize("has_names", [True, False])
def test_plans_and_exports_agree(has_names, tmp_path):
    """With two versions of a task, an experiment that reuses the variant and the exported row have one full prompt."""
    written = Written()
    written.register(OLD)
    labelled = msgspec.structs.replace(VARIANT, ambiguity_class="benign")
    named = OLD.task_digest if has_names else None
    event = VariantGenerated(variant=labelled, variant_digest=labelled.variant_digest, task_digest=named)
    written.add(written.run_id, event)
    written.register(NEW)
    root = to_disk(tmp_path / "s", written)
    (offered,) = StoredVariants(read_snapshot(root), "key").of_experiment("e")
    (row,) = dataset_rows(root).document
    assert offered.full_prompt == row["original_prompt"] == OLD.prompt
