-- Who holds, or stands before one process in the queue for, the lock that it waits for.
select b.pid,
       pg_catalog.convert_to(b.usename, %(encoding)s),
       pg_catalog.convert_to(b.application_name, %(encoding)s),
       b.state,
       pg_catalog.date_part('epoch', pg_catalog.clock_timestamp() - b.state_change),
       pg_catalog.convert_to(b.query, %(encoding)s)
from pg_catalog.pg_stat_activity as b
where b.pid = any (pg_catalog.pg_blocking_pids(%(pid)s))
order by b.xact_start nulls last
limit 3
