-- Which server this is, and which of its databases.
select s.system_identifier, d.oid
from pg_catalog.pg_control_system() as s, pg_catalog.pg_database as d
where d.datname = pg_catalog.current_database()
