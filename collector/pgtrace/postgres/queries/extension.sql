-- Where pg_stat_statements is, if it is in this database.
select quote_ident(n.nspname)
from pg_extension as e
join pg_namespace as n on n.oid = e.extnamespace
where e.extname = 'pg_stat_statements'
