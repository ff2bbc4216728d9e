-- Names of all processes. A role without pg_read_all_stats sees those of others as null.
select a.pid,
       pg_catalog.convert_to(a.datname, %(encoding)s),
       pg_catalog.convert_to(a.usename, %(encoding)s),
       pg_catalog.convert_to(a.application_name, %(encoding)s),
       a.backend_type,
       a.leader_pid
from pg_catalog.pg_stat_activity as a
