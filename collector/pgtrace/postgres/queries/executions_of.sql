-- Where pg_stat_statements is, and whether its view of 1.9 is its own: before, anybody who may create
-- in its schema could put one there, whose functions would run as whoever asks.
select pg_catalog.quote_ident(n.nspname),
       exists (
           select from pg_catalog.pg_depend as d
           join pg_catalog.pg_class as c on c.oid = d.objid
           where d.refclassid = 'pg_catalog.pg_extension'::pg_catalog.regclass
             and d.refobjid = e.oid
             and d.deptype = 'e'
             and d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass
             and c.relname = 'pg_stat_statements_info'
       )
from pg_catalog.pg_extension as e
join pg_catalog.pg_namespace as n on n.oid = e.extnamespace
where e.extname = 'pg_stat_statements'
