-- Databases that anybody may connect to, and whether this role may.
select d.oid,
       pg_catalog.convert_to(d.datname, %(encoding)s),
       pg_catalog.convert_to(pg_catalog.quote_ident(d.datname), %(encoding)s),
       pg_catalog.has_database_privilege(d.oid, 'connect')
from pg_catalog.pg_database as d
where d.datallowconn
