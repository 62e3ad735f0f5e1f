"""Finds the sentence around a value, which becomes the ``text`` of its segment."""

from lhaw_record.generators.extraction.document import Document

_ROOM_CHARS = 300


def text_around(document: Document, start: int, end: int) -> str:
    """Return the sentence that contains a value, or whole words on either side of it if the sentence is very long.

    Where possible, searching the prompt for the text, and the text for the value, leads back to this occurrence.
    """
    prompt = document.text
    first, last = document.sentence(start)
    last = max(last, end)
    if start - first > _ROOM_CHARS:
        first = prompt.find(" ", start - _ROOM_CHARS, start) + 1 or start
    if last - end > _ROOM_CHARS:
        last = max(end, prompt.rfind(" ", end, end + _ROOM_CHARS))
    while first < start and (prompt[first].isspace() or prompt[first] in "-*+#|"):
        first += 1
    while last > end and prompt[last - 1].isspace():
        last -= 1
    earlier = prompt.find(prompt[start:end], first, start)
    while 0 <= earlier < start:
        first = earlier + 1
        earlier = prompt.find(prompt[start:end], first, start)
    while first < start and (prompt[first].isspace() or prompt[first - 1 : first].isalnum()):
        first += 1
    return prompt[first:last]
