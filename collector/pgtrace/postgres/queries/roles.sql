-- The connection's own role, those that are asked for, and what each could become that may have the
-- server run programs or read and write its files.
select convert_to(r.rolname, %(encoding)s),
       r.rolname = session_user,
       r.rolsuper,
       (
           select convert_to(p.rolname, %(encoding)s)
           from pg_catalog.pg_roles as p
           where p.oid <> r.oid
             and (
                 p.rolsuper
                 or p.rolname in (
                     'pg_execute_server_program', 'pg_read_server_files', 'pg_write_server_files'
                 )
             )
             and pg_catalog.pg_has_role(r.oid, p.oid, 'member')
           order by p.rolsuper desc, p.rolname
           limit 1
       )
from pg_catalog.pg_roles as r
where r.rolname = session_user or r.rolname = any(%(names)s)
