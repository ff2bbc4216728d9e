-- Names of all processes. A role without pg_read_all_stats sees those of others as null.
select a.pid,
       convert_to(a.datname, %(encoding)s),
       convert_to(a.usename, %(encoding)s),
       convert_to(a.application_name, %(encoding)s),
       a.backend_type,
       a.leader_pid
from pg_stat_activity as a
