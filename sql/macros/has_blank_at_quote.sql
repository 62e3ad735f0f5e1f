-- macro: has_blank_at_quote
-- inputs: canonical JSON
-- outputs: boolean, false if no string in it starts or ends with a blank
-- equation: a blank, its escape or a non-ASCII character is next to a quotation mark
-- source: docs/metrics.md 4, wasted compute
-- notes: it may be true without such a string. The regular expression takes most of the
--     time, so it runs only where there is an escape or a non-ASCII character.
create or replace macro has_blank_at_quote(json) as (
    contains(json, '" ')
    or contains(json, ' "')
    or (
        (contains(json, '\') or strlen(json) <> length(json))
        and regexp_matches(
            json,
            '"([^\x21-\x7e]|\\[nrtfu])|([^\x21-\x7e]|\\[nrtf]|\\u\w{4})"'
        )
    )
)
