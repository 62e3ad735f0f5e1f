"""Provider streams: parsing, joining into whole replies, and requesting them in place of litellm's unstreamed calls."""
