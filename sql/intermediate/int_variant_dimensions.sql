-- view: int_variant_dimensions
-- grain: variant_digest, position
-- inputs: int_variant_segments
-- outputs:
--   variant_digest, position, dimension
-- equation: none
-- source: docs/metrics.md 3, by dimension; parameter `per`
-- notes: `per = variant_dimension` keeps the first segment of each dimension, `per =
--     segment` keeps all segments, and `per = primary` keeps position 1.
with ranked as (
    select
        variant_digest,
        position,
        dimension,
        row_number() over (
            partition by variant_digest, dimension order by position
        ) as rank_in_dimension
    from int_variant_segments
)

select
    variant_digest,
    position,
    dimension
from ranked
where
    case getvariable('per')
        when 'segment' then true
        when 'primary' then position = 1
        else rank_in_dimension = 1
    end
