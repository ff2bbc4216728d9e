-- Where pg_stat_statements is, if it is in this database.
select pg_catalog.quote_ident(n.nspname)
from pg_catalog.pg_extension as e
join pg_catalog.pg_namespace as n on n.oid = e.extnamespace
where e.extname = 'pg_stat_statements'
