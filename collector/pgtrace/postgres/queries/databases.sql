-- Databases that anybody may connect to, and whether this role may.
select d.oid,
       convert_to(d.datname, %(encoding)s),
       convert_to(quote_ident(d.datname), %(encoding)s),
       has_database_privilege(d.oid, 'connect')
from pg_database as d
where d.datallowconn
