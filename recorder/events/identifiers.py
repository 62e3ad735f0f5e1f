"""The types of ids and numbers in events, validated on decoding.

Authors of records are not trusted, and ids become file names. msgspec checks these annotations only when it decodes a
record, so creating an event in our own code costs nothing.
"""

import re
from typing import Annotated

import msgspec

_DIGEST = r"^[0-9a-f]{64}\Z"
# Begins with a letter, digit or '_', so it is neither '..' nor an option; no slash, space or control character.
_NAME = r"^[A-Za-z0-9_][A-Za-z0-9_.:@+=,~-]{0,254}\Z"
_EXPERIMENT = r"^[a-z0-9][a-z0-9._-]{0,99}\Z"
_LARGEST_ATTEMPT = (1 << 31) - 1
_END_OF_TIME_US = 253_402_300_799_999_999  # the last microsecond of the year 9999, the end of database calendars
_LARGEST = (1 << 62) - 1

Sha256 = Annotated[str, msgspec.Meta(pattern=_DIGEST)]
Name = Annotated[str, msgspec.Meta(pattern=_NAME)]
ExperimentId = Annotated[str, msgspec.Meta(pattern=_EXPERIMENT)]
Sequence = Annotated[int, msgspec.Meta(ge=0, le=_LARGEST)]
Microseconds = Annotated[int, msgspec.Meta(ge=0, le=_END_OF_TIME_US)]
Nanoseconds = Annotated[int, msgspec.Meta(ge=-_LARGEST, le=_LARGEST)]
Attempt = Annotated[int, msgspec.Meta(ge=0, le=_LARGEST_ATTEMPT)]

is_name = re.compile(_NAME).match
is_sha256 = re.compile(_DIGEST).match
is_experiment_id = re.compile(_EXPERIMENT).match
