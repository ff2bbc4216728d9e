-- Names of all processes. A role without pg_read_all_stats sees those of others as null.
select a.pid, a.datname::text, a.usename::text, a.application_name, a.backend_type, a.leader_pid
from pg_catalog.pg_stat_activity as a
