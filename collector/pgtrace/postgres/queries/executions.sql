-- Each statement since its numbers were last reset, and not its text, which would be read from a
-- file. The id is null of those that the role may not see.
select s.queryid, s.dbid, s.userid, s.calls, s.total_exec_time
from {schema}.pg_stat_statements(false) as s
where s.toplevel
