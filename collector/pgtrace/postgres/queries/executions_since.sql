-- Since when there are numbers, and how often some were forgotten for want of room.
select extract(epoch from i.stats_reset)::pg_catalog.float8, i.dealloc
from {schema}.pg_stat_statements_info as i
