"""The base of every event and the envelope that carries one: identity, order, time and writer."""

from recorder.values import Value


class Event(Value, frozen=True, kw_only=True, omit_defaults=True, tag_field="type"):
    """A fact, complete when it is written and never changed.

    What our own runner always knows may still be None, where the event was imported and its source lacks it: nothing
    stands in for it. The check ``recorded_trials_are_known`` finds recorded trials that lack such a value.

    A field added later needs a default: defaults are left out of the encoding, so old records keep their digests. If it
    may be None, its default is None: in the rows of older segments it is null.
    """
