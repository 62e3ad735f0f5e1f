"""The tests of shared stores can fail: each way of breaking the program is caught by the test of its promise."""

import pytest

from lhaw_record.recorder.errors import DamagedStore
from tests.recorder.sharing import mutations, test_deaths, test_guarantees, test_publishing


@pytest.fixture
def broken_host(new_host):
    """Makes hosts whose programs are wrong: ``broken_host(mutation)(address)``."""
    return lambda mutation: lambda address: new_host(address, mutation.__name__)


@pytest.mark.thorough
def test_an_early_acknowledgement_is_caught(directory, broken_host):
    """Guarantee 2 fails when decisions are acknowledged before they are published."""
    with pytest.raises(AssertionError, match=r"assert {'s\d': None"):
        test_guarantees.test_what_was_decided_survives_the_loss_of_its_host(
            directory, broken_host(mutations.decisions_acknowledged_before_publication)
        )


@pytest.mark.thorough
def test_a_recovery_without_upload_is_caught(bucket, cut_address, proxy, broken_host):
    """Guarantee 1 fails when recovery does not publish what a dead host had not."""
    with pytest.raises(AssertionError, match="has lost"):
        test_guarantees.test_what_was_appended_survives_the_death_of_its_host(
            bucket, cut_address, proxy, broken_host(mutations.recovery_does_not_upload)
        )


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("mutation", "seen"),
    [
        (mutations.journal_removed_before_the_upload, "assert 0 >= 20"),
        (mutations.named_here_before_the_upload, "has lost"),
    ],
)
def test_a_wrong_order_of_publishing_is_caught(directory, broken_host, mutation, seen):
    """A death before the upload shows that the journal goes, or the segment is named, too early."""
    with pytest.raises((AssertionError, DamagedStore), match=seen):
        test_deaths.test_a_death_while_publishing_doubles_and_loses_nothing(
            directory, "before the upload", broken_host(mutation)
        )


@pytest.mark.thorough
def test_artifacts_that_are_not_published_are_caught(directory, broken_host):
    """An event without its artifact is seen on another host."""
    with pytest.raises(FileNotFoundError):
        test_publishing.test_an_artifact_is_there_where_its_event_is(
            directory, broken_host(mutations.artifacts_stay_on_their_host)
        )


def test_publishing_after_a_failure_is_caught(tmp_path):
    """A journal that comes after a failed one is seen to be published."""
    with mutations.publishing_goes_on_after_a_failure(), pytest.raises(AssertionError):
        test_publishing.test_nothing_is_published_after_a_journal_that_was_not(tmp_path)


@pytest.mark.thorough
def test_a_listing_that_is_believed_is_caught(directory, new_host, monkeypatch):
    """A listing that misses a file shows a gap."""
    with mutations.every_listing_is_believed(), pytest.raises(AssertionError):
        test_publishing.test_a_listing_that_misses_a_file_is_taken_again(directory, new_host, monkeypatch)
