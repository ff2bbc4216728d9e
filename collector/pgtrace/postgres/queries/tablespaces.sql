select t.oid, pg_catalog.convert_to(t.spcname, %(encoding)s)
from pg_catalog.pg_tablespace as t
