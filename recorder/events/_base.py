"""The base class of every event."""

from lhaw_record.recorder.events.values import Value


class Event(Value, frozen=True, kw_only=True, omit_defaults=True, tag_field="type"):
    """A recorded fact. An event is complete when it is written and never changes.

    Some values are always known to our own runner but may be missing from the source of an imported event. They are
    then None and never invented. The check ``recorded_trials_are_known`` finds recorded trials that lack such a value.

    A field added later needs a default. Defaults are not encoded, so old records keep their digests. If the field may
    be None, its default must be None, because the field reads as null in the rows of older segments.

    An event type that began with fewer than 15 fields must never have more than 14 besides its type: MessagePack
    encodes larger maps with another header, which would change the digests of old records. Such an event gains further
    values inside a struct of its own, such as ``model_responded.usage``.
    """
