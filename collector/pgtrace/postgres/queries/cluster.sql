-- Which server this is, which of its databases, and by which backend it is asked.
select s.system_identifier, d.oid, pg_catalog.pg_backend_pid()
from pg_catalog.pg_control_system() as s, pg_catalog.pg_database as d
where d.datname = pg_catalog.current_database()
