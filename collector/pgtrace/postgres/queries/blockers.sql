-- Who holds, or stands before one process in the queue for, the lock that it waits for. A prepared
-- transaction has the pid 0, and is nowhere else.
select blocking.pid,
       pg_catalog.convert_to(b.usename, %(encoding)s),
       pg_catalog.convert_to(b.application_name, %(encoding)s),
       b.state,
       pg_catalog.date_part('epoch', pg_catalog.clock_timestamp() - b.state_change),
       pg_catalog.convert_to(b.query, %(encoding)s)
from (select distinct pg_catalog.unnest(pg_catalog.pg_blocking_pids(%(pid)s)) as pid) as blocking
left join pg_catalog.pg_stat_activity as b on b.pid = blocking.pid
order by blocking.pid <> 0, b.xact_start nulls last
limit 3
