-- Since when there are numbers, and how often some were forgotten for want of room.
select i.stats_reset, i.dealloc
from {schema}.pg_stat_statements_info as i
