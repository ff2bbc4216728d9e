-- Which server this is, and which of its databases.
select s.system_identifier, d.oid
from pg_control_system() as s, pg_database as d
where d.datname = current_database()
