-- Texts as the server normalised them. Those of others a role may not see are left out.
select s.queryid, pg_catalog.convert_to(pg_catalog.min(s.query), %(encoding)s)
from {schema}.pg_stat_statements as s
where s.queryid = any(%(query_ids)s)
group by s.queryid
