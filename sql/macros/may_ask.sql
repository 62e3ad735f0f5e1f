-- macro: may_ask
-- inputs: a text
-- outputs: boolean, false if no sentence of it asks the reader for anything
-- equation: it has a question mark or a colon, a word without which no request is made,
--     or emphasis or a quotation inside a word, which may complete such a word
-- source: docs/metrics.md 1, prose
-- notes: it may be true of a text that asks nothing. The judge, which is in Python,
--     reads only texts of which it is true.
create or replace macro may_ask(said) as regexp_matches(
    said,
    '[?？:]|请|麻烦|如果'
    || '|(?:\b|_)(?:if (?:you|useful|helpful|desired)|tell|let me know|specify|clarify'
    || '|choose|indicate|say|please|c(?:ould|an) you|need|wait(?:ing)?|awaiting'
    || '|(?:once|until) you|bitte|veuillez|por favor)(?:\b|_)'
    || '|[\w\x{80}-\x{10ffff}][*_`"“”「」]+[\w\x{80}-\x{10ffff}]',
    'i'
)
