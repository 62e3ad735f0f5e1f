"""The base of every event and the envelope that carries one: identity, order, time and writer."""

from recorder.values import Value


class Event(Value, frozen=True, kw_only=True, omit_defaults=True, tag_field="type"):
    """A fact, complete when it is written and never changed.

    A field added later needs a default: defaults are left out of the encoding, so old records keep their digests.
    """
