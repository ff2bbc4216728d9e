-- Tablespaces with page costs of their own, which no setting of a session changes.
select pg_catalog.convert_to(t.spcname, %(encoding)s)
from pg_catalog.pg_tablespace as t
where exists (
    select 1 from pg_catalog.unnest(t.spcoptions) as o where o like 'random_page_cost=%%'
)
order by t.spcname
