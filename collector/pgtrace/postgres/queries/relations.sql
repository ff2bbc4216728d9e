-- Every relation of this database that has a file: its path, its name, and what it is. TOAST and
-- its index go by the name of their table: their own says nothing to a person.
with owners as (
    select c.reltoastrelid as oid, c.relname, c.relnamespace
    from pg_catalog.pg_class as c
    where c.reltoastrelid <> 0
), toast as (
    select o.oid, o.relname, o.relnamespace
    from owners as o
    union all
    select i.indexrelid, o.relname, o.relnamespace
    from pg_catalog.pg_index as i
    join owners as o on o.oid = i.indrelid
)
select pg_catalog.pg_relation_filepath(c.oid),
       pg_catalog.convert_to(
           pg_catalog.quote_ident(n.nspname) || '.'
               || pg_catalog.quote_ident(coalesce(t.relname, c.relname)),
           %(encoding)s
       ),
       case
           when t.oid is not null or c.relkind = 't' then 'toast'
           when c.relkind = 'i' then 'index'
           else 'heap'
       end
from pg_catalog.pg_class as c
left join toast as t on t.oid = c.oid
join pg_catalog.pg_namespace as n on n.oid = coalesce(t.relnamespace, c.relnamespace)
where c.relkind in ('r', 'i', 't', 'm', 'S')
