-- What each database asked shared_buffers for since its numbers were last reset.
select d.datid,
       extract(epoch from d.stats_reset)::pg_catalog.float8,
       pg_catalog.convert_to(d.datname, %(encoding)s),
       d.blks_hit,
       d.blks_read
from pg_catalog.pg_stat_database as d
